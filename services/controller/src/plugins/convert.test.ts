import { describe, expect, test } from "vitest";
import { attachmentRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import { createdFrom, createRequest, placeMistake, publishRequest, sizeMistake, unpublishRequest } from "./convert.ts";

const fileSystem = {
  attachmentMode: "FILE_SYSTEM",
  accessMode: "SINGLE_NODE_WRITER",
  fsType: "ext4",
  mountFlags: ["noatime"],
  volumeMountGroup: "1000",
} as const;
const block = {
  attachmentMode: "BLOCK_DEVICE",
  accessMode: "MULTI_NODE_MULTI_WRITER",
  fsType: "",
  mountFlags: [],
  volumeMountGroup: "",
} as const;

const none = { kind: "none" } as const;

describe("CreateVolume", () => {
  test("carries what was asked for and nothing else", () => {
    const volume = volumeRecord([], [], {
      name: "name-7",
      capabilities: [fileSystem, block],
      capacity: { required: 10, limit: 20, actual: 0 },
      parameters: { tier: "gold" },
      mutableParameters: { iops: "3000" },
      topology: { required: [{ zone: "a" }, { zone: "b" }], preferred: [{ zone: "b" }], accessible: [] },
      contentSource: { kind: "volume", id: "of-the-record" },
    });
    expect(createRequest(volume, { kind: "volume", id: "src" }, "yes", { key: "secret" })).toEqual({
      name: "name-7",
      capacityRange: { requiredBytes: 10n, limitBytes: 20n },
      volumeCapabilities: [
        {
          accessMode: { mode: 1 },
          mount: { fsType: "ext4", mountFlags: ["noatime"], volumeMountGroup: "1000" },
        },
        { accessMode: { mode: 5 }, block: {} },
      ],
      parameters: { tier: "gold" },
      secrets: { key: "secret" },
      volumeContentSource: { volume: { volumeId: "src" } },
      accessibilityRequirements: {
        requisite: [{ segments: { zone: "a" } }, { segments: { zone: "b" } }],
        preferred: [{ segments: { zone: "b" } }],
      },
      mutableParameters: { iops: "3000" },
    });
  });

  test("leaves out capacity, topology and source that nobody asked for", () => {
    const volume = volumeRecord([], [], { capabilities: [fileSystem], capacity: { required: 0, limit: 0, actual: 0 } });
    expect(createRequest(volume, none, "no", {})).toMatchObject({
      capacityRange: undefined,
      accessibilityRequirements: undefined,
      volumeContentSource: undefined,
      mutableParameters: {},
    });
  });

  test("of a volume that is made for a node asks for that place alone", () => {
    const volume = volumeRecord([], [], {
      topology: { required: [{ zone: "a" }, { zone: "b" }], preferred: [], accessible: [] },
      binding: { node: "n1", place: { zone: "b" } },
    });
    const place = [{ segments: { zone: "b" } }];
    expect(createRequest(volume, { kind: "none" }, "yes", {})).toMatchObject({
      accessibilityRequirements: { requisite: place, preferred: place },
    });
    const nowhere = { ...volume, binding: { node: "n1", place: {} } };
    expect(createRequest(nowhere, { kind: "none" }, "yes", {})).toMatchObject({
      accessibilityRequirements: { requisite: [{ segments: { zone: "a" } }, { segments: { zone: "b" } }] },
    });
  });

  test("is not made when the plugin cannot be told the mode", () => {
    const shared = { ...fileSystem, accessMode: "SINGLE_NODE_MULTI_WRITER" } as const;
    const volume = volumeRecord([], [], { capabilities: [fileSystem, shared] });
    expect(createRequest(volume, none, "no", {})).toEqual({ mode: "SINGLE_NODE_MULTI_WRITER", because: "refused" });
    expect(createRequest(volume, none, "unknown", {})).toEqual({
      mode: "SINGLE_NODE_MULTI_WRITER",
      because: "unknown",
    });
  });

  const made = (change: object) =>
    createdFrom(
      {
        volume: {
          volumeId: "ext-7",
          capacityBytes: 12n,
          volumeContext: { a: "b" },
          contentSource: undefined,
          accessibleTopology: [],
          ...change,
        },
      },
      "2.0",
    );

  test("is read back whole", () => {
    expect(made({ accessibleTopology: [{ segments: { zone: "a" } }] })).toEqual({
      externalId: "ext-7",
      capacity: 12,
      context: { a: "b" },
      accessible: [{ zone: "a" }],
      pluginVersion: "2.0",
    });
    expect(createdFrom({ volume: undefined }, "2.0")).toBeUndefined();
  });

  test("a place without segments among others means anywhere", () => {
    expect(made({ accessibleTopology: [{ segments: { zone: "a" } }, { segments: {} }] })?.accessible).toEqual([]);
  });

  test.each([
    [{ required: 10, limit: 0 }, 9, /made 9 bytes although at least 10/],
    [{ required: 10, limit: 20 }, 21, /made 21 bytes although at most 20/],
    [{ required: 10, limit: 20 }, 10, undefined],
    [{ required: 10, limit: 20 }, 20, undefined],
    [{ required: 10, limit: 0 }, 999, undefined],
    [{ required: 10, limit: 20 }, 0, undefined],
  ])("of %o that makes %d", (asked, actual, mistake) => {
    const found = sizeMistake(volumeRecord([], [], { capacity: { ...asked, actual: 0 } }), actual);
    if (mistake === undefined) expect(found).toBeUndefined();
    else expect(found).toMatch(mistake);
  });
});

describe("attach and detach", () => {
  test("D9 an attach says how the volume is used in the words of its creation", () => {
    const volume = volumeRecord([], [], { capabilities: [fileSystem, block] });
    const created = createRequest(volume, none, "no", {});
    const attached = volume.capabilities.map((use) => publishRequest(volume, attachmentRecord("n1", use), "no", {}));
    expect(created).toMatchObject({
      volumeCapabilities: attached.map((one) => ("because" in one ? one : one.volumeCapability)),
    });
  });

  const volume = volumeRecord([], [], { externalId: "ext-7", context: { pool: "p" } });
  const attachment = attachmentRecord("n1", {
    nodeId: "i-0123",
    accessMode: "SINGLE_NODE_SINGLE_WRITER",
    readOnly: true,
    fsType: "xfs",
    mountFlags: ["ro"],
  });

  test("name the volume and the node in the plugin's words, with the same secrets", () => {
    expect(publishRequest(volume, attachment, "no", { key: "secret" })).toEqual({
      volumeId: "ext-7",
      nodeId: "i-0123",
      volumeCapability: {
        accessMode: { mode: 1 },
        mount: { fsType: "xfs", mountFlags: ["ro"], volumeMountGroup: "" },
      },
      readonly: true,
      secrets: { key: "secret" },
      volumeContext: { pool: "p" },
    });
    expect(unpublishRequest(volume, attachment, { key: "secret" })).toEqual({
      volumeId: "ext-7",
      nodeId: "i-0123",
      secrets: { key: "secret" },
    });
  });
});

describe("the place that a plugin answered", () => {
  const volume = volumeRecord([], [], {
    topology: { required: [{ zone: "a" }, { zone: "b", rack: "1" }], preferred: [], accessible: [] },
  });

  test.each([
    ["one of those asked for", [{ zone: "b" }], undefined],
    ["anywhere", [], undefined],
    ["in other letters", [{ ZONE: "a" }], undefined],
    ["by a key that nobody asked about", [{ host: "h7" }], undefined],
    ["one that nobody asked for", [{ zone: "c" }], /out of reach/],
    ["the right zone and the wrong rack", [{ zone: "b", rack: "2" }], /out of reach/],
  ])("is %s", (_what, accessible, says) => {
    const mistake = placeMistake(volume, accessible as never);
    if (says === undefined) expect(mistake).toBeUndefined();
    else expect(mistake).toMatch(says);
  });

  test("has to be that of the node that the volume was made for", () => {
    const late = { ...volume, binding: { node: "n1", place: { zone: "b", rack: "1" } } };
    expect(placeMistake(late, [{ zone: "a" }])).toMatch(/out of reach/);
    expect(placeMistake(late, [{ zone: "b" }])).toBeUndefined();
  });
});
