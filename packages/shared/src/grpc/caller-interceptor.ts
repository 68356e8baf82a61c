/**
 * Hands on two facts of a call that grpc-js knows and nice-grpc does not: until when the caller waits, and the certificate that TLS has
 * verified. They go as metadata, since nothing else reaches a handler; a caller that writes these names itself has written nothing.
 */
import { ServerInterceptingCall, type ServerInterceptor } from "@grpc/grpc-js";

/** Wall-clock milliseconds; written on this side alone. */
export const deadlineHeader = "x-holdfast-deadline";
/** The caller's certificate, DER in base64; written on this side alone, on servers without TLS never. */
export const peerHeader = "x-holdfast-peer";

export const callerInterceptor: ServerInterceptor = (_method, call) =>
  new ServerInterceptingCall(call, {
    start: (next) =>
      next({
        onReceiveMetadata: (metadata, pass) => {
          metadata.remove(deadlineHeader);
          metadata.remove(peerHeader);
          const deadline = Number(call.getDeadline());
          if (Number.isFinite(deadline)) metadata.set(deadlineHeader, String(deadline));
          // Empty unless the certificate was verified.
          const certificate = call.getAuthContext().sslPeerCertificate;
          if (certificate !== undefined) metadata.set(peerHeader, certificate.raw.toString("base64"));
          pass(metadata);
        },
      }),
  });
