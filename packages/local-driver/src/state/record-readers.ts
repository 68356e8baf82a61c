import type {
  Attachment,
  Capability,
  ContentSource,
  DriverRecord,
  GroupRecord,
  ImageFormat,
  Publication,
  SnapshotRecord,
  Staging,
  VolumeRecord,
} from "../domain/records.ts";
import {
  byteCount,
  flag,
  listOf,
  objectOf,
  oneOf,
  optional,
  type Reader,
  stringMap,
  text,
  textLike,
} from "./strict-reader.ts";

/** It becomes the name of a directory: no separator, no dot in front, never `.` or `..`. */
export const safeId = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

const id = textLike(safeId, "an id of letters, digits, '.', '_' and '-', at most 128");
const name = textLike(/./s, "a name");
const moment = textLike(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/, "a moment by RFC 3339, in UTC");
const absolutePath = textLike(/^\/[^\0]*$/, "an absolute path");
const access = oneOf("mount", "block");
const mode = oneOf(
  "SINGLE_NODE_WRITER",
  "SINGLE_NODE_READER_ONLY",
  "SINGLE_NODE_SINGLE_WRITER",
  "SINGLE_NODE_MULTI_WRITER",
);
const type = oneOf("directory", "image");

const capability = objectOf<Capability>({
  access,
  mode,
  fsType: oneOf("", "ext4", "xfs"),
  mountFlags: listOf(text),
  mountGroup: textLike(/^\d{0,10}$/, "a numeric gid, or empty"),
});

const source = objectOf<ContentSource>({ kind: oneOf("snapshot", "volume"), id });
const format = objectOf<ImageFormat>({ fsType: oneOf("ext4", "xfs"), finished: flag });
const attachment = objectOf<Attachment>({ nodeId: name, readonly: flag, access, mode });
const staging = objectOf<Staging>({ path: absolutePath, capability });
const publication = objectOf<Publication>({ path: absolutePath, readonly: flag, capability });

export type RecordOf<K extends DriverRecord["kind"]> = Extract<DriverRecord, { readonly kind: K }>;

/** What a record of each kind looks like in its file; undefined fields are left out there. */
export const recordReaders: { readonly [K in DriverRecord["kind"]]: Reader<RecordOf<K>> } = {
  volume: objectOf<VolumeRecord>({
    kind: oneOf("volume"),
    id,
    name,
    type,
    capacityBytes: byteCount,
    createdAt: moment,
    parameters: stringMap,
    source: optional(source),
    mutable: stringMap,
    format: optional(format),
    attachments: listOf(attachment),
    staging: optional(staging),
    publications: listOf(publication),
  }),
  snapshot: objectOf<SnapshotRecord>({
    kind: oneOf("snapshot"),
    id,
    name,
    volumeId: id,
    type,
    sizeBytes: byteCount,
    format: optional(format),
    createdAt: moment,
    parameters: stringMap,
    groupId: optional(id),
  }),
  group: objectOf<GroupRecord>({
    kind: oneOf("group"),
    id,
    name,
    createdAt: moment,
    parameters: stringMap,
    volumeIds: listOf(id),
    snapshotIds: listOf(id),
  }),
};
