/** Spec files of the command line: each value of the file stands in the request as the file says it, or the file is refused with its line. */

import type { JsonValue } from "@bufbuild/protobuf";
import { CreateClaimsRequest } from "@holdfast/shared/gen/holdfast/v1/claim";
import { PluginProfile } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { CreateVolumeRequest } from "@holdfast/shared/gen/holdfast/v1/volume";
import { plainKeys } from "@holdfast/shared/plain-keys";
import { afterAll, beforeAll } from "vitest";
import { CliFailure } from "../../packages/cli/src/frame/cli-failure.ts";
import type { Context } from "../../packages/cli/src/frame/context.ts";
import { loadMessageJson } from "../../packages/cli/src/frame/message-json.ts";
import { readSpec, type SpecKind } from "../../packages/cli/src/spec/read-spec.ts";
import type { SeededRandom } from "../local-driver/seeded-random.ts";
import { fuzzTests } from "./fuzz-tests.ts";
import { otherBytes } from "./mutate-bytes.ts";
import { otherTree } from "./mutate-tree.ts";
import { oddText } from "./odd-values.ts";

interface Codec {
  decode(bytes: Uint8Array): unknown;
  encode(message: never): { finish(): Uint8Array };
}
const kindOf = (type: string, codec: Codec): SpecKind<unknown> & { readonly codec: Codec } => ({
  type: `holdfast.v1.${type}`,
  codec,
  hidden: ["request_id", "wait_for"],
});

const capability = { attachment_mode: "file-system", access_mode: "single-node-writer", fs_type: "ext4" };
const corpus = [
  {
    kind: kindOf("CreateVolumeRequest", CreateVolumeRequest),
    spec: {
      ...{ namespace: "default", id: "data", plugin: "csi.example.com" },
      capacity: { required_bytes: "10GiB", limit_bytes: 21474836480 },
      capabilities: [{ ...capability, mount_flags: ["noatime"] }],
      ...{ parameters: { tier: "fast" }, labels: { team: "a" } },
      topology: { required: [{ segments: { zone: "z1" } }] },
      content_source: { snapshot: "s-1" },
      policy: { reclaim: "retain", requires_republish: false },
    },
  },
  {
    kind: kindOf("CreateClaimsRequest", CreateClaimsRequest),
    spec: {
      ...{ namespace: "default", workload: "w", node: "n1" },
      claims: [{ volume: "data", alias: "d", read_only: true, capability }],
      queue: { deadline: "5m" },
    },
  },
  {
    kind: kindOf("PluginProfile", PluginProfile),
    spec: {
      ...{ max_concurrent_calls: 8, max_volumes_per_node: 16, allowed_fs_types: ["ext4"], allow_path_like_ids: true },
      node_classes: [{ nodes: "big-*", topology: { zone: "z1" }, max_volumes: 3 }],
    },
  },
];
type Sample = (typeof corpus)[number];
interface Input {
  readonly sample: Sample;
  readonly text: string;
}

const messages = await loadMessageJson();

/** The request that the file makes, as proto JSON; a refusal throws. */
const read = async ({ sample, text }: Input): Promise<JsonValue> => {
  const context = { io: { stdin: async () => text }, messages: async () => messages } as unknown as Context;
  const { request } = await readSpec(context, sample.kind, "-", () => ({}));
  return messages.toJson(sample.kind.type, sample.kind.codec.encode(request as never).finish());
};
type Read = typeof read;

const literals = [
  "9007199254740993",
  "18446744073709551616",
  "-1",
  "1e3",
  "1e400",
  "0x10",
  "010",
  "1_000",
  "1.0",
  ".inf",
];
const yaml = (value: unknown, indent = ""): string =>
  typeof value !== "object" || value === null
    ? ` ${JSON.stringify(value)}\n`
    : `\n${Object.entries(value)
        .map(([key, item]) => `${indent}${Array.isArray(value) ? "-" : `${key}:`}${yaml(item, `${indent}  `)}`)
        .join("")}`;

const next = (random: SeededRandom): Input => {
  const sample = random.pick(corpus);
  const others = random.pick(corpus).spec;
  const tree = otherTree<unknown>(sample.spec, { random, json: true, others });
  const json = JSON.stringify(tree) ?? "null";
  if (random.chance(0.2)) return { sample, text: json.replace(/(?<=:)\d+(?=[,}])/g, () => random.pick(literals)) };
  if (random.chance(0.6)) return { sample, text: json };
  const text = yaml(sample.spec);
  if (random.chance(0.3)) return { sample, text: text.replace(/"[a-z]*"/, () => oddText(random)) };
  return { sample, text: otherBytes(Buffer.from(text), random, Buffer.from(json)).toString("utf8") };
};

const scales = new Map([
  ["B", 1n],
  ["KiB", 1024n],
  ["MiB", 1024n ** 2n],
  ["GiB", 1024n ** 3n],
]);
const said = (value: unknown): readonly string[] => {
  const [, digits = "", unit = ""] = /^\s*(\d+)\s*(\w+)\s*$/.exec(String(value)) ?? [];
  const scale = scales.get(unit);
  return [
    String(value),
    ...(scale === undefined ? [] : [(BigInt(digits) * scale).toString()]),
    ...(value === "5m" ? ["300s"] : []),
  ];
};
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** Numbers as the text has them, and not as a number could hold them. */
const exact = (text: string): unknown =>
  JSON.parse(text, function (this: unknown, _key, value, context?: { source?: string }) {
    return typeof value === "number" ? (context?.source ?? value) : value;
  } as (this: unknown, key: string, value: unknown) => unknown);

const lost = (spec: unknown, told: unknown, path: string): string | undefined => {
  if (spec === null) return undefined;
  if (!isObject(spec)) {
    const same = said(spec).some((one) => one === String(told) || Number(one) === Number(told));
    const word = String(spec).toUpperCase().replaceAll("-", "_");
    const large = /^-?\d{16,}$/.test(String(spec)) && String(spec) !== String(told);
    const enumWord = typeof told === "string" && word !== "" && told.endsWith(word);
    const text = typeof told === "string" && (/^\s*[\d.]+\s*\w*\s*$/.test(String(spec)) || /_?NS$/.test(told));
    return !large && (same || enumWord || (text && /bytes|deadline/.test(path)))
      ? undefined
      : `${path} is ${JSON.stringify(spec)} in the file and ${JSON.stringify(told)} in the request`;
  }
  for (const [key, item] of Object.entries(spec)) {
    const found = isObject(told) && Object.hasOwn(told, key) ? told[key] : undefined;
    if (isObject(item) && Object.keys(item).length === 0) continue;
    const wrong = lost(item, found, `${path}.${key}`);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
};

const wrongIn = (text: string, told: JsonValue): string | undefined => {
  let spec: unknown;
  try {
    spec = exact(text);
  } catch {
    // YAML that is no JSON: that it was read at all is judged.
    return undefined;
  }
  return lost(spec, told, "");
};

/** A reader of a text that was corrected in silence. */
const corrects =
  (pattern: RegExp, by: string): Read =>
  ({ sample, text }) =>
    read({ sample, text: text.replace(pattern, by) });

// As the programs begin.
let restore = (): void => undefined;
beforeAll(() => {
  restore = plainKeys();
});
afterAll(() => restore());

fuzzTests<Read, Input>({
  name: "the reader of spec files",
  full: 60_000,
  quick: 600,
  findWithin: 2_500,
  subject: read,
  target: (reader) => ({
    next,
    async examine(input) {
      try {
        const told = await reader(input);
        return { reached: true, accepted: true, wrong: wrongIn(input.text, told) };
      } catch (error) {
        if (!(error instanceof CliFailure)) throw error;
        const form = error.details.some((line) =>
          /there is no such field|has to be|is none of|cannot stand/.test(line),
        );
        return { reached: form, accepted: false };
      }
    },
    show: ({ sample, text }) => `${sample.kind.type} ${text}`,
  }),
  planted: [
    ["takes a negative number without its sign", corrects(/:-(?=\d)/g, ":")],
    [
      "leaves out what it does not know",
      async ({ sample, text }) => {
        try {
          return await read({ sample, text });
        } catch (error) {
          const unknown = /: (\w+): there is no such field/.exec((error as CliFailure).details?.[0] ?? "")?.[1];
          if (unknown === undefined || (error as CliFailure).details.length > 1) throw error;
          const { [unknown]: _, ...rest } = JSON.parse(text) as Record<string, unknown>;
          return await read({ sample, text: JSON.stringify(rest) });
        }
      },
    ],
    ["cuts a fraction off", corrects(/(?<=:\d+)\.\d+(?=[,}])/g, "")],
    ["takes large numbers as nearly the same", corrects(/9007199254740993/g, "9007199254740992")],
    [
      "falls over a list where a map belongs",
      async (input) => {
        if (/"(capacity|policy|queue)":\[/.test(input.text)) throw new TypeError("spec.capacity is not a map");
        return await read(input);
      },
    ],
  ],
});
