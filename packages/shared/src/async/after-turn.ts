import { setImmediate } from "node:timers";

/**
 * For what has to be told of something that has ended, and that nobody waits for: whoever goes on from there goes on first, and has most often
 * sent its next message when this runs.
 */
export const afterTurn = (tell: () => void): void => void setImmediate(tell);
