/**
 * One setting: where it is read from, what it may be, what it means. `parse` answers the value or why the text is wrong; the text
 * itself is put into the message by the caller, unless the setting is secret.
 */
import { isHoldfastError } from "../errors/holdfast-error.ts";
import { formatAddress, parseAddress } from "../grpc/listen-address.ts";

export interface Setting<T> {
  /** Name of the environment variable, starting with HOLDFAST_. */
  readonly env: string;
  readonly type: string;
  readonly doc: string;
  readonly default: T | undefined;
  readonly required: boolean;
  readonly secret: boolean;
  parse(text: string): { readonly value: T } | { readonly wrong: string };
}

interface Common<T> {
  readonly env: string;
  readonly doc: string;
  readonly default?: T;
  /** Never printed, and readable from the file named by `<env>_FILE`. */
  readonly secret?: boolean;
}

/** With a default the value is always there; without, the setting has to be given, unless made `optional`. */
function setting<T>(common: Common<T>, type: string, parse: Setting<T>["parse"]): Setting<T> {
  const { env, doc, secret = false } = common;
  return { env, doc, type, secret, default: common.default, required: common.default === undefined, parse };
}

export function optional<T>(given: Setting<T>): Setting<T | undefined> {
  return { ...given, required: false };
}

export function stringSetting(
  init: Common<string> & { readonly pattern?: RegExp; readonly hint?: string },
): Setting<string> {
  const { pattern, hint } = init;
  return setting(init, "text", (text) =>
    pattern === undefined || pattern.test(text) ? { value: text } : { wrong: hint ?? `has to match ${pattern}` },
  );
}

interface Range {
  readonly min?: number;
  readonly max?: number;
}

export function intSetting(init: Common<number> & Range): Setting<number> {
  return setting(init, `integer${rangeText(init, String)}`, (text) => {
    if (!/^-?\d{1,15}$/.test(text)) return { wrong: "has to be an integer" };
    return inRange(Number(text), init, String);
  });
}

export function numberSetting(init: Common<number> & Range): Setting<number> {
  return setting(init, `number${rangeText(init, String)}`, (text) => {
    if (!/^-?\d{1,15}(\.\d{1,15})?$/.test(text)) return { wrong: "has to be a number" };
    return inRange(Number(text), init, String);
  });
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The value is in milliseconds; the text always has a unit, because a bare number means something else to everyone. */
export function durationSetting(init: Common<number> & Range): Setting<number> {
  return setting(init, `duration${rangeText(init, formatDuration)}`, (text) => {
    const ms = parseDuration(text);
    if (ms === undefined) return { wrong: "has to be a duration with a unit, such as 500ms, 30s, 5m, 1h30m or 2d" };
    return inRange(ms, init, formatDuration);
  });
}

export function parseDuration(text: string): number | undefined {
  if (!/^(\d{1,12}(\.\d{1,6})?(ms|s|m|h|d))+$/.test(text)) return undefined;
  let ms = 0;
  for (const [, digits, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    ms += Number(digits) * (unitMs[unit ?? ""] ?? Number.NaN);
  }
  return Math.round(ms);
}

export function formatDuration(ms: number): string {
  for (const unit of ["d", "h", "m", "s"]) {
    const size = unitMs[unit] ?? 1;
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}ms`;
}

const truths: Readonly<Record<string, boolean>> = {
  "1": true,
  true: true,
  yes: true,
  on: true,
  "0": false,
  false: false,
  no: false,
  off: false,
};

export function boolSetting(init: Common<boolean>): Setting<boolean> {
  return setting(init, "yes or no", (text) => {
    const value = Object.hasOwn(truths, text.toLowerCase()) ? truths[text.toLowerCase()] : undefined;
    return value === undefined ? { wrong: "has to be 1, true, yes, on, 0, false, no or off" } : { value };
  });
}

export function listSetting(
  init: Common<readonly string[]> & { readonly pattern?: RegExp },
): Setting<readonly string[]> {
  return setting(init, "list, separated by commas", (text) => {
    const items = text
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "");
    const odd = items.find((item) => init.pattern !== undefined && !init.pattern.test(item));
    return odd === undefined
      ? { value: Object.freeze(items) }
      : { wrong: `item ${JSON.stringify(odd)} has to match ${init.pattern}` };
  });
}

export function enumSetting<const T extends string>(init: Common<T> & { readonly values: readonly T[] }): Setting<T> {
  return setting(init, `one of ${init.values.join(", ")}`, (text) => {
    const value = init.values.find((known) => known === text);
    return value === undefined ? { wrong: `has to be one of ${init.values.join(", ")}` } : { value };
  });
}

export function pathSetting(init: Common<string>): Setting<string> {
  return setting(init, "absolute path", (text) => {
    if (!text.startsWith("/") || text.includes("\0")) return { wrong: "has to be an absolute path" };
    if (text.split("/").includes("..")) return { wrong: "may not contain .." };
    return { value: text.length > 1 ? text.replace(/\/+$/, "") : text };
  });
}

export function addressSetting(init: Common<string>): Setting<string> {
  return setting(init, "unix:///path or host:port", (text) => {
    try {
      return { value: formatAddress(parseAddress(text)) };
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      return { wrong: error.violations[0]?.description ?? error.message };
    }
  });
}

/** For what cannot listen on a socket of the file system. */
export function tcpAddressSetting(init: Common<string>): Setting<string> {
  const base = addressSetting(init);
  const parse: typeof base.parse = (text) =>
    /^unix:/.test(text) ? { wrong: "has to be host:port; it does not listen on a unix socket" } : base.parse(text);
  return { ...base, type: "host:port", parse };
}

function inRange(value: number, { min, max }: Range, show: (value: number) => string) {
  if (min !== undefined && value < min) return { wrong: `has to be at least ${show(min)}` };
  if (max !== undefined && value > max) return { wrong: `may be at most ${show(max)}` };
  return { value };
}

function rangeText({ min, max }: Range, show: (value: number) => string): string {
  if (min !== undefined && max !== undefined) return `, ${show(min)} to ${show(max)}`;
  if (min !== undefined) return `, at least ${show(min)}`;
  return max === undefined ? "" : `, at most ${show(max)}`;
}
