import { constants, type IncomingHttpHeaders } from "node:http2";
import { Status } from "nice-grpc";
import { describe, expect, test } from "vitest";
import { metadataOf, silentEnd, toldEnd } from "./call-end.ts";

describe("an end that the server tells", () => {
  test("is nothing of gRPC without a status", () => {
    const none: IncomingHttpHeaders[] = [{}, { ":status": "200" }, { "grpc-message": "no" }, { te: "trailers" }];
    for (const headers of none) expect(toldEnd(headers), JSON.stringify(headers)).toBeUndefined();
  });

  test("has each of gRPC's codes", () => {
    for (let code = 0; code <= 16; code += 1)
      expect(toldEnd({ "grpc-status": String(code), "grpc-message": "said" })).toMatchObject({ code, details: "said" });
  });

  test.each(["17", "99", "-1", "abc", "NaN", "Infinity", "OK", "toString", "0, 0", "0.5"])(
    "is unknown for the status %j",
    (told) => {
      expect(toldEnd({ "grpc-status": told })?.code).toBe(Status.UNKNOWN);
    },
  );

  // `"grpc-status" 1*DIGIT`, and what breaks that rule must never be read as success.
  test.each(["", " ", "0x0", "-0", "0e5", "0.0", "\t0"])("is no success for the status %j", (told) => {
    expect(toldEnd({ "grpc-status": told })?.code).toBe(Status.UNKNOWN);
  });

  test("has an empty message if none was told", () => {
    expect(toldEnd({ "grpc-status": "5" })).toMatchObject({ code: Status.NOT_FOUND, details: "" });
  });

  test.each([
    ["plain text, with / and :", "plain text, with / and :"],
    ["100%25 sure", "100% sure"],
    ["volume %C3%A4%E2%82%AC%F0%9F%98%80", "volume ä€😀"],
    ["two%0Alines", "two\nlines"],
    ["a%2Fb%3Fc%23d%26e", "a/b?c#d&e"],
    ["50% of it", "50% of it"],
    ["cut %E2%82", "cut %E2%82"],
    ["no hex %zz", "no hex %zz"],
    ["%", "%"],
  ])("reads the message %j", (told, details) => {
    expect(toldEnd({ "grpc-status": "13", "grpc-message": told })?.details).toBe(details);
  });

  test("carries the other headers as metadata, those that end in -bin as bytes", () => {
    const end = toldEnd({
      ":status": "200",
      "grpc-status": "3",
      "grpc-message": "bad",
      "grpc-status-details-bin": Buffer.from([0, 255, 16]).toString("base64"),
      "x-two-bin": `${Buffer.from("a").toString("base64")}, ${Buffer.from("b").toString("base64url")}`,
      "x-text": "as it came",
    });
    expect(end?.metadata.get("grpc-status-details-bin")).toEqual([Buffer.from([0, 255, 16])]);
    expect(end?.metadata.get("x-two-bin")).toEqual([Buffer.from("a"), Buffer.from("b")]);
    expect(end?.metadata.get("x-text")).toEqual(["as it came"]);
    for (const gone of ["grpc-status", "grpc-message", ":status"]) expect(end?.metadata.get(gone), gone).toEqual([]);
  });
});

describe("an end without a word of gRPC", () => {
  test.each([
    [400, Status.INTERNAL],
    [401, Status.UNAUTHENTICATED],
    [403, Status.PERMISSION_DENIED],
    [404, Status.UNIMPLEMENTED],
    [429, Status.UNAVAILABLE],
    [502, Status.UNAVAILABLE],
    [503, Status.UNAVAILABLE],
    [504, Status.UNAVAILABLE],
    [204, Status.UNKNOWN],
    [302, Status.UNKNOWN],
    [418, Status.UNKNOWN],
    [500, Status.UNKNOWN],
  ])("is of the HTTP status %i, whatever the stream was closed with", (http, code) => {
    for (const reset of [undefined, constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL]) {
      const end = silentEnd(http, reset, undefined);
      expect(end.code).toBe(code);
      expect(end.details).toContain(String(http));
    }
  });

  // The table "Errors" of "gRPC over HTTP2".
  test.each([
    ["PROTOCOL_ERROR", constants.NGHTTP2_PROTOCOL_ERROR, Status.INTERNAL],
    ["INTERNAL_ERROR", constants.NGHTTP2_INTERNAL_ERROR, Status.INTERNAL],
    ["FLOW_CONTROL_ERROR", constants.NGHTTP2_FLOW_CONTROL_ERROR, Status.INTERNAL],
    ["STREAM_CLOSED", constants.NGHTTP2_STREAM_CLOSED, Status.INTERNAL],
    ["FRAME_SIZE_ERROR", constants.NGHTTP2_FRAME_SIZE_ERROR, Status.INTERNAL],
    ["REFUSED_STREAM", constants.NGHTTP2_REFUSED_STREAM, Status.UNAVAILABLE],
    ["CANCEL", constants.NGHTTP2_CANCEL, Status.CANCELLED],
    ["COMPRESSION_ERROR", constants.NGHTTP2_COMPRESSION_ERROR, Status.INTERNAL],
    ["CONNECT_ERROR", constants.NGHTTP2_CONNECT_ERROR, Status.INTERNAL],
    ["ENHANCE_YOUR_CALM", constants.NGHTTP2_ENHANCE_YOUR_CALM, Status.RESOURCE_EXHAUSTED],
    ["INADEQUATE_SECURITY", constants.NGHTTP2_INADEQUATE_SECURITY, Status.PERMISSION_DENIED],
    ["a code that nobody knows", 4711, Status.INTERNAL],
  ])("is of the reset with %s", (_, reset, code) => {
    for (const http of [undefined, 200]) {
      const end = silentEnd(http, reset, new Error("the cause"));
      expect(end.code).toBe(code);
      expect(end.details).toContain(`code ${reset}: the cause`);
    }
  });

  test("is internal when the stream just closed", () => {
    for (const reset of [undefined, constants.NGHTTP2_NO_ERROR])
      expect(silentEnd(200, reset, undefined)).toMatchObject({
        code: Status.INTERNAL,
        details: "the call ended without a status of gRPC",
      });
  });
});

test("headers that repeat keep every value, and none of HTTP/2's own is metadata", () => {
  const metadata = metadataOf({ ":status": "200", "x-a": "1, 2", "set-cookie": ["c=1", "d=2"] });
  expect(metadata.get("x-a")).toEqual(["1, 2"]);
  expect(metadata.get("set-cookie")).toEqual(["c=1", "d=2"]);
  expect(Object.keys(metadata.getMap()).sort()).toEqual(["set-cookie", "x-a"]);
});
