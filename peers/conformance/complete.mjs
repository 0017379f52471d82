// Whether a run of the conformance suite passed whole: every scenario that is scored ran, and no check of it failed or
// warned.
//
// complete.mjs NAME REQUIREMENTS MODE SUITE FOLDER: MODE is client or server, SUITE its program, FOLDER what it wrote.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { judge, line, readRun, tally } from "./results.mjs";

/** The scenarios under one key of the suite's list, which has them one per line. */
function scored(requirements, mode) {
    const lists = join(dirname(suite), "..", "requirements", `${requirements}.yaml`);
    const section = new RegExp(`^${mode}:\\n((?:  - .*\\n|\\s*\\n)+)`, "m").exec(readFileSync(lists, "utf8"))?.[1];
    return section ? section.match(/(?<=- ).+/g) : [];
}

const [name, requirements, mode, suite, folder] = process.argv.slice(2);
const run = readRun(folder);
const scenarios = scored(requirements, mode);
const failures = new Map();
let passed = 0;
for (const scenario of scenarios) {
    const checks = run.get(scenario) ?? new Map();
    const { passed: successes } = tally(checks);
    passed += successes;
    if (checks.size === 0) failures.set(`${scenario}:`, line(scenario, "", "did not run"));
    for (const [id, { status, message }] of checks) {
        if (status === "FAILURE" || status === "WARNING") {
            failures.set(`${scenario}:${id}`, line(scenario, id, status, message));
        }
    }
}
const others = [...run].filter(([scenario]) => !scenarios.includes(scenario));
const broken = others.filter(([, checks]) => tally(checks).failed > 0).map(([scenario]) => scenario);
console.log(`${scenarios.length} scored scenarios: ${passed} checks passed, ${failures.size} did not`);
if (broken.length > 0) console.log(`not scored, and failing: ${broken.join(" ")}`);
process.exit(scenarios.length > 0 && judge(name, requirements, failures) ? 0 : 1);
