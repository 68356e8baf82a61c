/** What a search found, for people. */
import type { Found } from "./search/search.ts";

const figure = (value: number): string => value.toLocaleString("en-US");

export const scheduleText = ({ violation }: Found): string =>
  violation === undefined
    ? ""
    : [
        violation.what,
        ...violation.schedule.map(({ action, detail }, i) => `  ${String(i + 1).padStart(2)}. ${action}: ${detail}`),
      ].join("\n");

export const modelReport = (name: string, found: Found, seconds: number, megabytes: number): string => {
  const { states, transitions, depth, parts, exhausted, violation } = found;
  const end = violation !== undefined ? "violated" : exhausted ? "exhausted, 0 violations" : "not exhausted";
  return [
    `${name}: ${end}: ${figure(states)} states, ${figure(transitions)} transitions, depth ${depth}, ${figure(parts)} parts, ${seconds.toFixed(1)} s, ${megabytes.toFixed(0)} MB`,
    scheduleText(found),
  ]
    .filter((line) => line !== "")
    .join("\n");
};
