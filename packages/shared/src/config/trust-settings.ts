import { optional, pathSetting } from "./setting.ts";

/** What a service has that speaks to others of this installation. */
export const trustSettings = {
  tlsDir: optional(
    pathSetting({
      env: "HOLDFAST_TLS_DIR",
      doc: "Directory with tls.crt (the certificate of this process, then intermediates), tls.key and ca.crt (the trust roots), or one file with all of it; read again whenever it changes. Without it there is no TLS, and callers are believed.",
    }),
  ),
} as const;
