// Compares two runs of the conformance suite check by check: without the gateway and through it.
//
// compare.mjs DIRECT GATEWAY: two folders that the suite wrote. Prints a line per scenario and what
// differs. Exits with 1 if a check that passes directly does not pass through the gateway.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Worst last. INFO is no verdict; one check may report several times, then the worst counts. */
const RANKS = ["INFO", "SKIPPED", "SUCCESS", "WARNING", "FAILURE"];
const MISSING = "MISSING";

const worse = (a, b) => (RANKS.indexOf(a) >= RANKS.indexOf(b) ? a : b);

/** Scenario => check id => { status, message }. */
function readRun(folder) {
    const run = new Map();
    for (const entry of readdirSync(folder).sort()) {
        // A folder is called server-SCENARIO-TIME.
        const scenario = /^server-(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z$/.exec(entry)?.[1];
        if (!scenario) continue;
        const checks = new Map();
        for (const { id, status, errorMessage } of JSON.parse(readFileSync(join(folder, entry, "checks.json")))) {
            const before = checks.get(id);
            if (before && worse(before.status, status) === before.status) continue;
            checks.set(id, { status, message: errorMessage });
        }
        run.set(scenario, checks);
    }
    return run;
}

function tally(checks = new Map()) {
    const statuses = [...checks.values()].map(({ status }) => status);
    const count = (wanted) => statuses.filter((status) => status === wanted).length;
    const [passed, failed, warned] = [count("SUCCESS"), count("FAILURE"), count("WARNING")];
    return { passed, failed, text: `${passed} ok, ${failed} failed${warned ? `, ${warned} warned` : ""}` };
}

/** What a check's two outcomes mean: nothing, something to know, or a fault of the gateway. */
function verdict(direct, gateway) {
    if (direct === gateway) return undefined;
    if (direct === "FAILURE" || direct === MISSING) return gateway === "FAILURE" ? "fault" : "note";
    if (gateway === "FAILURE") return "fault";
    // A check that never came is one that was not reached; one without a verdict may come or not.
    if (gateway === MISSING) return direct === "SUCCESS" ? "fault" : undefined;
    return direct === "INFO" ? undefined : "note";
}

/**
 * A quick answer comes as plain JSON, as the specification allows: the suite says so (INFO) and leaves out what it
 * would have checked of a stream.
 */
const cameAsJson = (checks) => checks.get("server-sse-content-type")?.status === "INFO";
const ABOUT_STREAMS = ["server-sse-priming-event", "server-sse-retry-field", "server-sse-disconnect-resume"];

const [direct, gateway] = process.argv.slice(2).map(readRun);
const scenarios = [...new Set([...direct.keys(), ...gateway.keys()])];
const found = { fault: [], note: [] };
const totals = [0, 0, 0, 0];

console.log(`${"scenario".padEnd(34)}${"direct".padEnd(26)}through the gateway`);
for (const scenario of scenarios) {
    const [a, b] = [direct.get(scenario) ?? new Map(), gateway.get(scenario) ?? new Map()];
    const [left, right] = [tally(a), tally(b)];
    [left.passed, left.failed, right.passed, right.failed].forEach((n, i) => (totals[i] += n));
    for (const id of new Set([...a.keys(), ...b.keys()])) {
        const [before, after] = [a.get(id)?.status ?? MISSING, b.get(id)?.status ?? MISSING];
        const noStream = after === MISSING && ABOUT_STREAMS.includes(id) && cameAsJson(b);
        const kind = noStream ? "note" : verdict(before, after);
        const [message] = (b.get(id)?.message ?? a.get(id)?.message ?? "").split("\n");
        if (kind) found[kind].push(`  ${scenario}: ${id}: ${before} -> ${after} ${message}`.trimEnd());
    }
    console.log(`${scenario.padEnd(34)}${left.text.padEnd(26)}${right.text}`);
}
const [dp, df, gp, gf] = totals;
console.log(`${"total".padEnd(34)}${`${dp} ok, ${df} failed`.padEnd(26)}${gp} ok, ${gf} failed\n`);
if (scenarios.length === 0) {
    console.log("no results to compare");
    process.exit(1);
}
if (found.note.length > 0) console.log(["different, and no fault of the gateway:", ...found.note, ""].join("\n"));
if (found.fault.length > 0) console.log(["FAILED through the gateway only:", ...found.fault].join("\n"));
else console.log("no check fails through the gateway that passes without it");
process.exit(found.fault.length > 0 ? 1 : 0);
