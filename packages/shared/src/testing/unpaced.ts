import type { Pace } from "../async/pace.ts";

/** Of tests that are not about how fast bodies are read. */
export const unpaced: Pick<Pace, "take"> = { take: () => undefined };
