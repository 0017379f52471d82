// Compares two runs of the conformance suite check by check: without the gateway and through it.
//
// compare.mjs NAME REQUIREMENTS DIRECT GATEWAY: two folders that the suite wrote. Prints a line per scenario and what
// differs. Exits with 1 if a check that passes directly does not pass through the gateway.

import { judge, line, readRun, tally } from "./results.mjs";

const MISSING = "MISSING";

/** What a check's two outcomes mean: nothing, something to know, or a fault of the gateway. */
function verdict(direct, gateway, failedDirectly) {
    if (direct === gateway) return undefined;
    if (direct === "FAILURE") return "note";
    // Where something else failed before, this one was not reached.
    if (direct === MISSING) return gateway === "FAILURE" && !failedDirectly ? "fault" : "note";
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

const [name, requirements, ...folders] = process.argv.slice(2);
const [direct, gateway] = folders.map(readRun);
const scenarios = [...new Set([...direct.keys(), ...gateway.keys()])].sort();
const [faults, notes] = [new Map(), []];
const totals = [0, 0, 0, 0];

console.log(`${"scenario".padEnd(47)}${"direct".padEnd(27)}through the gateway`);
for (const scenario of scenarios) {
    const [a, b] = [direct.get(scenario) ?? new Map(), gateway.get(scenario) ?? new Map()];
    const [left, right] = [tally(a), tally(b)];
    [left.passed, left.failed, right.passed, right.failed].forEach((n, i) => (totals[i] += n));
    for (const id of new Set([...a.keys(), ...b.keys()])) {
        const [before, after] = [a.get(id)?.status ?? MISSING, b.get(id)?.status ?? MISSING];
        const noStream = after === MISSING && ABOUT_STREAMS.includes(id) && cameAsJson(b);
        // A scenario without any check broke off before its first.
        const failedDirectly = left.failed > 0 || a.size === 0;
        const kind = noStream ? "note" : verdict(before, after, failedDirectly);
        const text = line(scenario, id, `${before} -> ${after}`, b.get(id)?.message ?? a.get(id)?.message);
        if (kind === "fault") faults.set(`${scenario}:${id}`, text);
        if (kind === "note") notes.push(text);
    }
    console.log(`${scenario.padEnd(47)}${left.text.padEnd(27)}${right.text}`);
}
const [dp, df, gp, gf] = totals;
console.log(`${"total".padEnd(47)}${`${dp} ok, ${df} failed`.padEnd(27)}${gp} ok, ${gf} failed\n`);
if (scenarios.length === 0) {
    console.log("no results to compare");
    process.exit(1);
}
if (notes.length > 0) console.log(["different, and no fault of the gateway:", ...notes, ""].join("\n"));
const well = judge(name, requirements, faults);
if (well) console.log("no check fails through the gateway that passes without it");
process.exit(well ? 0 : 1);
