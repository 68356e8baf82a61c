/** The generated messages as proto3 JSON, by the descriptors of the API itself: a new field needs no line here. */
import {
  createFileRegistry,
  type DescMessage,
  type DescService,
  fromBinary,
  fromJson,
  type JsonValue,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { readApiImage } from "@holdfast/shared/grpc/api-image";

export interface MessageJson {
  describe(type: string): DescMessage;
  /** Of the API for schedulers and operators, and of what an agent offers to its host. */
  readonly services: readonly DescService[];
  toJson(type: string, bytes: Uint8Array): JsonValue;
  /** Throws when the JSON does not fit the message. */
  toBytes(type: string, json: JsonValue): Uint8Array;
}

export const loadMessageJson = async (): Promise<MessageJson> => {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, await readApiImage()));
  const describe = (type: string): DescMessage => {
    const found = registry.getMessage(type);
    if (found === undefined) throw new Error(`the API has no message ${type}`);
    return found;
  };
  return {
    describe,
    services: [...registry].filter(
      (desc): desc is DescService =>
        desc.kind === "service" && /^holdfast\.(agent\.)?v1$/.test(desc.file.proto.package),
    ),
    toJson: (type, bytes) =>
      toJson(describe(type), fromBinary(describe(type), bytes), {
        registry,
        useProtoFieldName: true,
        alwaysEmitImplicit: true,
      }),
    toBytes: (type, json) => toBinary(describe(type), fromJson(describe(type), json, { registry })),
  };
};
