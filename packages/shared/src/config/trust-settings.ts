import { boolSetting, optional, pathSetting } from "./setting.ts";

/** What a service has that speaks to others of this installation. */
export const trustSettings = {
  tlsDir: optional(
    pathSetting({
      env: "HOLDFAST_TLS_DIR",
      doc: "Directory with tls.crt (the certificate of this process, then intermediates), tls.key and ca.crt (the trust roots), or one file with all of it; read again whenever it changes. Without it there is no TLS, and callers are believed.",
    }),
  ),
  tlsRenew: boolSetting({
    env: "HOLDFAST_TLS_RENEW",
    doc: "Whether this process renews the certificate in HOLDFAST_TLS_DIR: an agent by its controllers, a controller by its own HOLDFAST_CA_DIR. Off where another program does.",
    default: true,
  }),
} as const;
