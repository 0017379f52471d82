// Where the installed packages are. They are not above these files, so the usual lookup misses them.

import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const peers = process.env.EVERGATE_PEERS_DIR ?? fileURLToPath(new URL("../.peers", import.meta.url));
const packages = createRequire(`${peers}/node/package.json`);

export const load = (name) => import(pathToFileURL(packages.resolve(name)));
