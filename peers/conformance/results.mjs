// What the conformance suite wrote, and what is known to fail.

import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** Worst last. INFO is no verdict; one check may report several times, then the worst counts. */
const RANKS = ["INFO", "SKIPPED", "SUCCESS", "WARNING", "FAILURE"];

const worse = (a, b) => (RANKS.indexOf(a) >= RANKS.indexOf(b) ? a : b);

/** Scenario => check id => { status, message }, of a folder that the suite wrote in client or in server mode. */
export function readRun(folder) {
    const run = new Map();
    const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith("checks.json"));
    for (const file of files.sort()) {
        // A folder is called server-SCENARIO-TIME or SCENARIO-TIME, and a scenario may have a slash.
        const entry = relative(folder, dirname(join(folder, file)));
        const scenario = /^(?:server-)?(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z$/.exec(entry)?.[1];
        if (!scenario) continue;
        const checks = new Map();
        for (const { id, status, errorMessage } of JSON.parse(readFileSync(join(folder, file)))) {
            const before = checks.get(id);
            if (before && worse(before.status, status) === before.status) continue;
            checks.set(id, { status, message: errorMessage });
        }
        run.set(scenario, checks);
    }
    return run;
}

export function tally(checks = new Map()) {
    const statuses = [...checks.values()].map(({ status }) => status);
    const count = (wanted) => statuses.filter((status) => status === wanted).length;
    const [passed, failed, warned] = [count("SUCCESS"), count("FAILURE"), count("WARNING")];
    return { passed, failed, text: `${passed} ok, ${failed} failed${warned ? `, ${warned} warned` : ""}` };
}

/**
 * Prints failures, except those that are expected of this run, and says whether all is well. What is expected and did
 * not happen is not well either: the list only shrinks.
 *
 * @param failures Map of "scenario:check" to what to print about it
 */
export function judge(run, requirements, failures) {
    const groups = JSON.parse(readFileSync(join(import.meta.dirname, "expected.json")));
    const ours = groups.filter((group) => group.run === run && group.requirements.includes(requirements));
    const expected = new Map(ours.flatMap(({ reason, failures }) => failures.map((failure) => [failure, reason])));
    const surprises = [...failures].filter(([failure]) => !expected.has(failure)).map(([, text]) => text);
    const overcome = [...expected.keys()].filter((failure) => !failures.has(failure));
    const reasons = new Map();
    for (const [failure, reason] of expected) {
        if (failures.has(failure)) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    }
    for (const [reason, count] of reasons) console.log(`${count} expected failures: ${reason}`);
    if (surprises.length > 0) console.log(["FAILED:", ...surprises].join("\n"));
    if (overcome.length > 0) {
        console.log("FAILED: expected to fail, and does not; take it from peers/conformance/expected.json:");
        console.log(overcome.map((failure) => `  ${failure}`).join("\n"));
    }
    return surprises.length === 0 && overcome.length === 0;
}

export const line = (scenario, id, statuses, message = "") =>
    `  ${scenario}: ${id}: ${statuses} ${message.split("\n")[0].slice(0, 200)}`.trimEnd();
