// The wire shape of csi.v1 as flat rows, read from a compiled descriptor set and from the table wire.tsv, so that the two
// can be compared. A row is `kind owner number name type`, parted by tabs; everything that goes over the wire, or that
// decides what may be logged, is in it.

interface FieldDescriptor {
  readonly name: string;
  readonly number: number;
  readonly type: string;
  readonly label?: string;
  readonly typeName?: string;
  readonly oneofIndex?: number;
  readonly proto3Optional?: boolean;
  readonly extendee?: string;
  readonly options?: Options;
}

interface EnumDescriptor {
  readonly name: string;
  readonly value: readonly { readonly name: string; readonly number?: number; readonly options?: Options }[];
}

interface MessageDescriptor {
  readonly name: string;
  readonly field?: readonly FieldDescriptor[];
  readonly nestedType?: readonly MessageDescriptor[];
  readonly enumType?: readonly EnumDescriptor[];
  readonly oneofDecl?: readonly { readonly name: string }[];
  readonly options?: Options & { readonly mapEntry?: boolean };
}

interface ServiceDescriptor {
  readonly name: string;
  readonly method: readonly {
    readonly name: string;
    readonly inputType: string;
    readonly outputType: string;
    readonly clientStreaming?: boolean;
    readonly serverStreaming?: boolean;
    readonly options?: Options;
  }[];
}

type Options = Readonly<Record<string, unknown>>;

/** What `buf build --as-file-descriptor-set` writes as JSON, as far as the rows need it. */
export interface DescriptorSet {
  readonly file: readonly {
    readonly package?: string;
    readonly messageType?: readonly MessageDescriptor[];
    readonly enumType?: readonly EnumDescriptor[];
    readonly service?: readonly ServiceDescriptor[];
    readonly extension?: readonly FieldDescriptor[];
  }[];
}

/** Every row of one proto package. */
export function wireRows(image: DescriptorSet, packageName: string): readonly string[] {
  return image.file
    .filter((file) => file.package === packageName)
    .flatMap((file) => [
      ...(file.service ?? []).flatMap((service) => rowsOfService(packageName, service)),
      ...(file.messageType ?? []).flatMap((message) => rowsOfMessage(packageName, message)),
      ...(file.enumType ?? []).flatMap((each) => rowsOfEnum(packageName, each)),
      ...(file.extension ?? []).map((each) =>
        row("extension", bare(each.extendee), each.number, each.name, typeOf(each)),
      ),
    ]);
}

/**
 * The rows of the table, whose first line names the columns. The last column names the version of CSI that alone has a
 * row; with `version`, what only another version has is left out.
 */
export function tableRows(table: string, version?: string): readonly string[] {
  return table
    .split("\n")
    .slice(1)
    .filter((line) => line.trim() !== "")
    .map((line) => line.split("\t"))
    .filter(([, , , , , only = ""]) => version === undefined || only === "" || only === version)
    .map((cells) => row(...cells.slice(0, 5)));
}

/** `missing` is in the table alone, `extra` in the image alone; a row that differs is once in each. */
export function compareRows(
  table: readonly string[],
  image: readonly string[],
): { readonly missing: readonly string[]; readonly extra: readonly string[] } {
  const wanted = new Set(table);
  const found = new Set(image);
  return { missing: [...wanted.difference(found)], extra: [...found.difference(wanted)] };
}

function rowsOfService(packageName: string, service: ServiceDescriptor): readonly string[] {
  return service.method.map((method) => {
    const input = `${method.clientStreaming ? "stream " : ""}${bare(method.inputType)}`;
    const output = `${method.serverStreaming ? "stream " : ""}${bare(method.outputType)}`;
    const type = `${input} -> ${output} ${customOptions(method.options)}`;
    return row("rpc", `${packageName}.${service.name}`, "", method.name, type);
  });
}

function rowsOfMessage(scope: string, message: MessageDescriptor): readonly string[] {
  const owner = `${scope}.${message.name}`;
  const nested = message.nestedType ?? [];
  const fields = message.field ?? [];
  // A map is a repeated entry message made by the compiler; the table shows it as the map that it is.
  const mapTypes = new Map(
    nested
      .filter((each) => each.options?.mapEntry)
      .map((entry) => [`${owner}.${entry.name}`, `map<${(entry.field ?? []).map(typeOf).join(",")}>`]),
  );
  return [
    ...(fields.length === 0 ? [row("message", owner, "", "", "(no fields)")] : []),
    ...fields.map((field) => row("field", owner, field.number, field.name, fieldType(message, field, mapTypes))),
    ...(message.enumType ?? []).flatMap((each) => rowsOfEnum(owner, each)),
    ...nested.filter((each) => !each.options?.mapEntry).flatMap((each) => rowsOfMessage(owner, each)),
  ];
}

function fieldType(message: MessageDescriptor, field: FieldDescriptor, mapTypes: ReadonlyMap<string, string>): string {
  const single = typeOf(field);
  const type = mapTypes.get(single) ?? (field.label === "LABEL_REPEATED" ? `repeated ${single}` : single);
  return `${type} ${presence(message, field)} ${customOptions(field.options)}`;
}

/** `optional` is a oneof of the compiler's making with one field: named as what it is, since it changes the wire's meaning. */
function presence(message: MessageDescriptor, field: FieldDescriptor): string {
  if (field.proto3Optional) return "optional";
  return field.oneofIndex === undefined ? "" : `oneof ${message.oneofDecl?.[field.oneofIndex]?.name}`;
}

function rowsOfEnum(scope: string, each: EnumDescriptor): readonly string[] {
  return each.value.map((value) =>
    row("enum", `${scope}.${each.name}`, value.number ?? 0, value.name, customOptions(value.options)),
  );
}

function typeOf(field: FieldDescriptor): string {
  return field.typeName === undefined ? field.type.replace("TYPE_", "").toLowerCase() : bare(field.typeName);
}

/** The extension options set, such as `csi.v1.csi_secret`; one set to false says nothing and counts as absent. */
function customOptions(options: Options | undefined): string {
  return Object.entries(options ?? {})
    .filter(([key, value]) => key.startsWith("[") && value === true)
    .map(([key]) => key.slice(1, -1))
    .sort()
    .join(" ");
}

/** Descriptors write full names with a leading dot. */
function bare(fullName: string | undefined): string {
  return (fullName ?? "").replace(/^\./, "");
}

function row(...cells: readonly (string | number)[]): string {
  return cells
    .map((cell) => String(cell).replace(/ +/g, " ").trim())
    .join("\t")
    .trimEnd();
}
