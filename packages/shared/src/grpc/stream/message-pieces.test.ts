import { describe, expect, test } from "vitest";
import { PublishRequest, RelayResponse } from "../../gen/holdfast/internal/v1/agent.ts";
import { bytesOf, piecesOfMessage } from "./message-pieces.ts";

const large = new Uint8Array(200_000).map((_, at) => at);

describe("a message in pieces", () => {
  test("has the same bytes as in one", () => {
    for (const message of [
      RelayResponse.fromPartial({ response: large }),
      RelayResponse.fromPartial({ response: Uint8Array.of(1, 2) }),
      RelayResponse.fromPartial({ failure: { code: 3, message: "no", notSent: true } }),
      RelayResponse.fromPartial({}),
    ]) {
      const pieces = piecesOfMessage(RelayResponse as never, message);
      expect(Buffer.concat(pieces).equals(RelayResponse.encode(message).finish())).toBe(true);
      expect(bytesOf(pieces)).toBe(RelayResponse.encode(message).finish().length);
    }
  });

  test("copies no large field, and what lies within another message as ever", () => {
    const pieces = piecesOfMessage(RelayResponse as never, RelayResponse.fromPartial({ response: large }));
    expect(pieces.some((piece) => piece === large)).toBe(true);
    const deep = PublishRequest.fromPartial({ permit: { volume: "v".repeat(200_000), mountFlags: ["a"] } });
    expect(piecesOfMessage(PublishRequest as never, deep)).toHaveLength(1);
    expect(Buffer.concat(piecesOfMessage(PublishRequest as never, deep))).toEqual(
      Buffer.from(PublishRequest.encode(deep).finish()),
    );
  });
});
