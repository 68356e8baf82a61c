/** The settings of the Docker volume plugin. */
import { idPattern } from "@holdfast/model/id";
import { durationSetting, optional, pathSetting, stringSetting } from "@holdfast/shared/config/setting";

export const dockerSettings = {
  dockerSocket: optional(
    pathSetting({
      env: "HOLDFAST_DOCKER_SOCKET",
      doc: "Socket of the Docker volume plugin, such as /run/docker/plugins/holdfast.sock (0660); not served without it.",
    }),
  ),
  dockerNamespace: stringSetting({
    env: "HOLDFAST_DOCKER_NAMESPACE",
    doc: "Namespace of the volumes that Docker makes, finds and mounts.",
    pattern: idPattern,
    default: "docker",
  }),
  dockerTemplates: optional(
    pathSetting({
      env: "HOLDFAST_DOCKER_TEMPLATES",
      doc: "JSON file with named options for `docker volume create -o template=NAME`; read at each use.",
    }),
  ),
  dockerPidFile: pathSetting({
    env: "HOLDFAST_DOCKER_PID_FILE",
    doc: "Pid file of dockerd, by which the agent notices that dockerd has started anew.",
    default: "/run/docker.pid",
  }),
  dockerWait: durationSetting({
    env: "HOLDFAST_DOCKER_WAIT",
    doc: "How long a mount waits for its volume before it fails; dockerd itself waits for two minutes.",
    min: 100,
    max: 110_000,
    default: 100_000,
  }),
};
