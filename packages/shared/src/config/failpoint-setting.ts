import { type FailpointSetting, parseFailpoints } from "../failpoints.ts";
import { stringSetting } from "./setting.ts";

type Points<Name extends string> = readonly FailpointSetting<Name>[];

/** HOLDFAST_FAILPOINTS, over the names that the service has. */
export const failpointSetting = <Name extends string>(names: readonly Name[], doc: string) => {
  const base = stringSetting({ env: "HOLDFAST_FAILPOINTS", doc, default: "" });
  const parse = (text: string): { value: Points<Name> } | { wrong: string } => {
    const { settings, mistakes } = parseFailpoints(names, text);
    return mistakes.length === 0 ? { value: settings } : { wrong: mistakes.join("; ") };
  };
  const none: Points<Name> = [];
  return { ...base, default: none, parse };
};
