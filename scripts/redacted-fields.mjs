// Which fields of which messages must never be shown: read from the descriptors, so that a new field is covered by its own option.
const shownPackages = /^(csi|holdfast)\./;

/** @param {{file: object[]}} image what `buf build -o image.json` wrote */
export function redactedFieldsModule(image) {
  const types = {};
  for (const file of image.file) {
    if (!shownPackages.test(file.package ?? "")) continue;
    for (const message of file.messageType ?? []) collect(types, file.package, message);
  }
  const lines = Object.keys(types)
    .sort()
    .map((name) => `  ${JSON.stringify(name)}: ${JSON.stringify(types[name])},`);
  return [
    "// Made by scripts/redacted-fields.mjs from the descriptors. Do not edit.",
    "export interface MessageFields {",
    "  /** Fields with csi_secret (option 1059 of CSI) or debug_redact. */",
    "  readonly redacted: readonly string[];",
    "  /** Fields that hold messages, and of which type. */",
    "  readonly messages: Readonly<Record<string, string>>;",
    "  /** Fields that are maps to messages, and of which type. */",
    "  readonly maps: Readonly<Record<string, string>>;",
    "}",
    "export const messageTypes: Readonly<Record<string, MessageFields>> = {",
    ...lines,
    "};",
    "",
  ].join("\n");
}

function collect(types, scope, message) {
  const name = `${scope}.${message.name}`;
  const redacted = [];
  const messages = {};
  const maps = {};
  for (const field of message.field ?? []) {
    const options = field.options ?? {};
    if (options["[csi.v1.csi_secret]"] === true || options.debugRedact === true) redacted.push(field.jsonName);
    const entry = (message.nestedType ?? []).find(
      (nested) => nested.options?.mapEntry === true && `.${name}.${nested.name}` === field.typeName,
    );
    const type = messageTypeOf(entry === undefined ? field : entry.field.find((part) => part.name === "value"));
    if (type !== undefined) (entry === undefined ? messages : maps)[field.jsonName] = type;
  }
  types[name] = { redacted, messages, maps };
  for (const nested of message.nestedType ?? []) {
    if (nested.options?.mapEntry !== true) collect(types, name, nested);
  }
}

function messageTypeOf({ type, typeName = "" }) {
  const name = typeName.slice(1);
  return type === "TYPE_MESSAGE" && shownPackages.test(name) ? name : undefined;
}
