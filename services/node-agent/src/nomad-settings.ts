/** The setting of Nomad's volume plugin. */
import { optional, pathSetting } from "@holdfast/shared/config/setting";

export const nomadSettings = {
  nomadSocket: optional(
    pathSetting({
      env: "HOLDFAST_NOMAD_SOCKET",
      doc: "Socket for Nomad's volume plugin, such as /run/holdfast/nomad.sock (0660); not served without it.",
    }),
  ),
};
