/** The API page by page, from the comments of the .proto files. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import {
  createFileRegistry,
  type DescEnum,
  type DescField,
  type DescFile,
  type DescMessage,
  type DescMethod,
  fromBinary,
  ScalarType,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { isRequired } from "./is-required.ts";

const folder = "docs/reference";
const packages = ["holdfast.v1", "holdfast.agent.v1"];

/** Comments by the path of what they stand before, as the compiler numbers it. */
const commentsOf = (file: DescFile): ReadonlyMap<string, string> =>
  new Map(
    (file.proto.sourceCodeInfo?.location ?? []).map(({ path: at, leadingComments }) => [
      at.join("."),
      leadingComments
        .split("\n")
        .map((line) => line.trimEnd().replace(/^ /, ""))
        .join("\n")
        .trim(),
    ]),
  );

const scalarWords = (type: ScalarType): string => ScalarType[type].toLowerCase();

const linkTo = (desc: DescMessage | DescEnum): string => {
  if (desc.typeName.startsWith("google.protobuf.")) return desc.name;
  if (!packages.includes(desc.file.proto.package)) return desc.typeName;
  return `[${desc.name}](${path.basename(desc.file.name)}.md#${desc.name.toLowerCase()})`;
};

const typeWords = (field: DescField): string => {
  if (field.fieldKind === "map")
    return `map of ${scalarWords(field.mapKey)} to ${field.mapKind === "message" ? linkTo(field.message) : "string"}`;
  const one = field.message ?? field.enum;
  const name = one === undefined ? scalarWords(field.scalar ?? ScalarType.STRING) : linkTo(one);
  return field.fieldKind === "list" ? `list of ${name}` : name;
};

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

const fieldRows = (message: DescMessage, at: string, comments: ReadonlyMap<string, string>): readonly string[] =>
  message.fields.map((field) => {
    const index = message.proto.field.indexOf(field.proto);
    const notes = [
      field.oneof === undefined ? "" : `One of \`${field.oneof.name}\`.`,
      isRequired(field) ? "**Required.**" : "",
      field.proto.options?.debugRedact === true ? "Kept out of logs." : "",
      comments.get(`${at}.2.${index}`) ?? "",
    ];
    return `| \`${field.name}\` | ${typeWords(field)} | ${cell(notes.filter((note) => note !== "").join(" "))} |`;
  });

const messageText = (message: DescMessage, at: string, comments: ReadonlyMap<string, string>): readonly string[] => [
  `### ${message.name}`,
  "",
  ...[comments.get(at) ?? ""].filter((text) => text !== "").flatMap((text) => [text, ""]),
  ...(message.fields.length === 0
    ? ["Empty.", ""]
    : ["| field | type | meaning |", "|---|---|---|", ...fieldRows(message, at, comments), ""]),
];

const enumText = (desc: DescEnum, at: string, comments: ReadonlyMap<string, string>): readonly string[] => [
  `### ${desc.name}`,
  "",
  ...[comments.get(at) ?? ""].filter((text) => text !== "").flatMap((text) => [text, ""]),
  "| value | meaning |",
  "|---|---|",
  ...desc.values.map(({ name }, i) => `| \`${name}\` | ${cell(comments.get(`${at}.2.${i}`) ?? "")} |`),
  "",
];

const methodText = (method: DescMethod, at: string, comments: ReadonlyMap<string, string>): readonly string[] => [
  `### ${method.name}`,
  "",
  `${linkTo(method.input)} → ${method.methodKind === "server_streaming" ? "stream of " : ""}${linkTo(method.output)}`,
  "",
  ...[comments.get(at) ?? ""].filter((text) => text !== "").flatMap((text) => [text, ""]),
];

const pageOf = (file: DescFile): string => {
  const comments = commentsOf(file);
  return [
    `# ${file.proto.package}: ${path.basename(file.name)}`,
    "",
    `Made from \`proto/${file.name}.proto\` (\`npm run docs\`). What holds for every RPC stands in [common](common.md).`,
    "",
    ...[comments.get("2") ?? ""].filter((text) => text !== "").flatMap((text) => ["```", text, "```", ""]),
    ...file.services.flatMap((service, i) => [
      `## ${service.name}`,
      "",
      ...[comments.get(`6.${i}`) ?? ""].filter((text) => text !== "").flatMap((text) => [text, ""]),
      ...service.methods.flatMap((method, m) => methodText(method, `6.${i}.2.${m}`, comments)),
    ]),
    "## Messages",
    "",
    ...file.enums.flatMap((desc, i) => enumText(desc, `5.${i}`, comments)),
    ...file.messages.flatMap((message, i) => messageText(message, `4.${i}`, comments)),
  ]
    .join("\n")
    .trimEnd()
    .concat("\n");
};

export const referencePages = (root: string): readonly (readonly [name: string, text: string])[] => {
  const work = mkdtempSync(path.join(os.tmpdir(), "holdfast-docs-"));
  try {
    const image = path.join(work, "image.binpb");
    execFileSync(path.join(root, "node_modules/.bin/buf"), ["build", "-o", image], { cwd: root, stdio: "inherit" });
    const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(image)));
    return (
      [...registry.files]
        .filter((file) => packages.includes(file.proto.package))
        // Options alone are told at the fields that have them.
        .filter(({ services, messages, enums }) => services.length + messages.length + enums.length > 0)
        .map((file) => [`${folder}/${path.basename(file.name)}.md`, pageOf(file)] as const)
        .sort(([a], [b]) => (a < b ? -1 : 1))
    );
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
};
