import { accessModes } from "@holdfast/model/access";
import { expect, test } from "vitest";
import { AccessMode, AttachmentMode } from "../gen/holdfast/v1/common.ts";
import { accessModeFrom, accessModeMessage, attachmentModeFrom, attachmentModeMessage } from "./convert-model.ts";

test.each(accessModes)("%s comes back from its message", (mode) => {
  expect(accessModeFrom(accessModeMessage(mode))).toBe(mode);
});

test("each mode has a message of its own, and UNKNOWN that of none", () => {
  expect(new Set(accessModes.map(accessModeMessage)).size).toBe(accessModes.length);
  expect(accessModeMessage("UNKNOWN")).toBe(AccessMode.ACCESS_MODE_UNSPECIFIED);
  expect(accessModeMessage("SINGLE_NODE_MULTI_WRITER")).toBe(AccessMode.ACCESS_MODE_SINGLE_NODE_MULTI_WRITER);
});

test.each(["FILE_SYSTEM", "BLOCK_DEVICE"] as const)("%s comes back from its message", (mode) => {
  expect(attachmentModeFrom(attachmentModeMessage(mode))).toBe(mode);
});

test("a number of a newer version is no mode", () => {
  expect(accessModeFrom(99)).toBe("UNKNOWN");
  expect(attachmentModeFrom(99)).toBeUndefined();
  expect(attachmentModeFrom(AttachmentMode.ATTACHMENT_MODE_UNSPECIFIED)).toBeUndefined();
});
