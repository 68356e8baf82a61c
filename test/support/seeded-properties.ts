/**
 * `npm test` is a seeded sample: every property that names no seed of its own tries the same cases each time, so that a change is
 * what makes it fail, and never chance. `npm run test:full` looks for new cases, and prints the seed of what it finds; HOLDFAST_SEED
 * repeats one.
 */
import { configureGlobal } from "fast-check";
import { full } from "./full.ts";

const given = process.env["HOLDFAST_SEED"];
const seed = given === undefined ? 7 : Number(given);

if (!full || given !== undefined) configureGlobal({ seed });
