/**
 * ControllerLinkService as it is on the wire: frames of Serve stay bytes, which are taken apart where it is known whose they are. The
 * messages themselves are in controller_link.proto.
 */
import { TransferChunk } from "../../gen/holdfast/internal/v1/controller_link.ts";

/** No frame has more bytes, and no chunk of a transfer carries more. */
export const maxFrameBytes = 64 * 1024;

/** As it came, and as it goes: nothing is copied. */
const frame = {
  encode: (bytes: Uint8Array) => ({ finish: () => bytes }),
  decode: (bytes: Uint8Array): Uint8Array => bytes,
};

export const ServeWireDefinition = {
  name: "ControllerLinkService",
  fullName: "holdfast.internal.v1.ControllerLinkService",
  methods: {
    serve: {
      name: "Serve",
      requestType: frame,
      requestStream: true,
      responseType: frame,
      responseStream: true,
      options: {},
    },
    transfer: {
      name: "Transfer",
      requestType: TransferChunk,
      requestStream: true,
      responseType: TransferChunk,
      responseStream: true,
      options: {},
    },
  },
} as const;
