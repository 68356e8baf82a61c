/**
 * `npm run model`: all states of each bound, and a counterexample for each mutant. `npm run model -- bounds` and `-- mutants` run one half,
 * and any other words those bounds and mutants whose names have them. A mutant runs in a process of its own, which loads the changed product.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { environmentActions } from "./environment-actions.ts";
import { modelReport } from "./model-report.ts";
import { modelMutants } from "./mutants.ts";
import { type ModelMutant, plantFault } from "./planted-fault.ts";
import { search } from "./search/search.ts";
import { exhaustedWorlds, type WorldName, worldNames, worldOf } from "./worlds.ts";

/** No counterexample within so many states: the mutant has survived. */
const mostOfMutant = 250_000;

const searched = async (name: string, within: WorldName, mostStates?: number) => {
  const began = performance.now();
  const seconds = (): number => (performance.now() - began) / 1_000;
  const found = await search(await worldOf(within), {
    ...(mostStates === undefined ? {} : { mostStates }),
    progress: (states, depth) => console.log(`  ${states} states, depth ${depth}, ${seconds().toFixed(0)} s`),
  });
  console.log(modelReport(name, found, seconds(), process.memoryUsage().rss / 1e6));
  return found;
};

const mutantHere = async (mutant: ModelMutant): Promise<number> => {
  const notLoaded = plantFault(mutant);
  const { violation } = await searched(mutant.name, mutant.within, mutant.mostStates ?? mostOfMutant);
  if (notLoaded().length > 0) throw new Error(`${notLoaded().join()} is not loaded by the model`);
  return violation === undefined ? 1 : 0;
};

const mutantApart = async ({ name }: ModelMutant): Promise<boolean> => {
  const child = spawn(process.execPath, [import.meta.filename, "--mutant", name], { stdio: "inherit" });
  const [code] = (await once(child, "close")) as [number | null];
  return code === 0;
};

const [first = "", ...rest] = process.argv.slice(2);
const one = first === "--mutant" ? modelMutants.find(({ name }) => name === rest.join(" ")) : undefined;

const all = async (): Promise<number> => {
  const wanted = (name: string, half: string): boolean =>
    first === "" || first === half || name.includes([first, ...rest].join(" "));
  const named = worldNames.filter((bound) => bound === [first, ...rest].join(" "));
  const whole = first === "" || first === "bounds";
  const searches =
    named.length > 0 ? named : whole ? exhaustedWorlds : exhaustedWorlds.filter((bound) => wanted(bound, "bounds"));
  const mutants = modelMutants.filter(({ name }) => wanted(name, "mutants"));
  let failed = searches.length + mutants.length === 0 ? 1 : 0;
  let states = 0;
  const actions = new Set<string>();
  const { watchCells } = await import("./used-cells.ts");
  const cells = watchCells();
  for (const name of searches) {
    const found = await searched(name, name);
    states += found.states;
    for (const action of found.actions.keys()) actions.add(action);
    if (found.violation !== undefined || !found.exhausted) failed += 1;
  }
  if (searches.length > 0) console.log(`${states} states in all; actions: ${[...actions].sort().join(", ")}`);
  if (searches === exhaustedWorlds) {
    const unused = environmentActions.filter((action) => !actions.has(action));
    console.log([...cells.report(), ...unused.map((action) => `never used: ${action}`)].join("\n"));
    failed += unused.length + cells.mistakes().length;
  }
  for (const mutant of mutants)
    if (!(await mutantApart(mutant))) {
      console.log(`SURVIVED ${path.basename(mutant.file)}: ${mutant.name}`);
      failed += 1;
    }
  console.log(failed === 0 ? "model: everything holds" : `model: ${failed} failed, or nothing has that name`);
  return failed === 0 ? 0 : 1;
};

process.exitCode = one === undefined ? await all() : await mutantHere(one);
