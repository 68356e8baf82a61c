import type { Call } from "../call.ts";
import { everyCall, type Rule } from "./rule.ts";

const stringLimit = 128;
const mapLimit = 4096;
const flagsLimit = 4096;
const nodeIdLimit = 256;
const pathLimit = 128;

const paths = new Set(["stagingTargetPath", "targetPath", "volumePath"]);

const bytes = (text: string): number => Buffer.byteLength(text);
const total = (texts: readonly string[]): number => texts.reduce((sum, text) => sum + bytes(text), 0);

interface Sized {
  readonly path: string;
  readonly kind: "string" | "map" | "flags" | "nodeId" | "path";
  readonly size: number;
}

const mapFields = new Set([
  "parameters",
  "mutableParameters",
  "secrets",
  "volumeContext",
  "publishContext",
  "segments",
]);

/** Every sized thing of a request, with the limit that is its own. */
function* sizes(value: object, prefix: string): Generator<Sized> {
  for (const [name, member] of Object.entries(value) as [string, unknown][]) {
    const path = prefix === "" ? name : `${prefix}.${name}`;
    if (typeof member === "string") {
      const kind = paths.has(name) ? "path" : name === "nodeId" ? "nodeId" : "string";
      yield { path, kind, size: bytes(member) };
    } else if (name === "mountFlags" && Array.isArray(member)) {
      yield { path, kind: "flags", size: total(member) };
    } else if (mapFields.has(name) && typeof member === "object" && member !== null) {
      yield { path, kind: "map", size: total(Object.entries(member).flat()) };
    } else if (Array.isArray(member)) {
      for (const [index, one] of member.entries()) {
        if (typeof one === "string") yield { path: `${path}[${index}]`, kind: "string", size: bytes(one) };
        else yield* sizes(one, `${path}[${index}]`);
      }
    } else if (typeof member === "object" && member !== null) yield* sizes(member, path);
  }
}

const over =
  (kind: Sized["kind"], limit: number) =>
  (call: Call): string | undefined => {
    const found = sizes(call.request, "").find((one) => one.kind === kind && one.size > limit);
    return found === undefined ? undefined : `${call.method}: ${found.path} has ${found.size} bytes of ${limit}`;
  };

const relativePath = ({ method, request }: Call): string | undefined => {
  // A relative volume_path is no place where a volume can be: stats-not-here and node-expand-not-here answer it.
  const found = ["stagingTargetPath", "targetPath"].find((name) => {
    const value: unknown = Reflect.get(request, name);
    return typeof value === "string" && value !== "" && !value.startsWith("/");
  });
  return found === undefined ? undefined : `${method}: ${found} is not absolute`;
};

export const sizeRules: readonly Rule[] = [
  everyCall(
    "string-oversize",
    "INVALID_ARGUMENT",
    "A string field holds at most 128 bytes unless its comment says otherwise.",
    over("string", stringLimit),
  ),
  everyCall(
    "map-oversize",
    "INVALID_ARGUMENT",
    "A map of strings holds at most 4 KiB, keys and values together.",
    over("map", mapLimit),
  ),
  everyCall(
    "mount-flags-oversize",
    "INVALID_ARGUMENT",
    "All mount flags together hold at most 4 KiB.",
    over("flags", flagsLimit),
  ),
  everyCall("node-id-oversize", "INVALID_ARGUMENT", "A node id holds at most 256 bytes.", over("nodeId", nodeIdLimit)),
  everyCall(
    "path-oversize",
    "INVALID_ARGUMENT",
    "A plugin promises to accept paths of 128 bytes and no more.",
    over("path", pathLimit),
  ),
  everyCall("path-relative", "INVALID_ARGUMENT", "Paths in node calls are absolute.", relativePath),
];
