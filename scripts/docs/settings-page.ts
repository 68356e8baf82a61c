import { configSchema as controller } from "@holdfast/controller/config";
import { configSchema as localDriver } from "@holdfast/local-driver/config";
import { configSchema as nodeAgent } from "@holdfast/node-agent/config";
import { describeConfig } from "@holdfast/shared/config/describe-config";

/** Every setting of every service, from the schemas that they are read by. */
export const settingsPage = (): string =>
  [
    "# Settings",
    "",
    "Made from the code (`npm run docs`). A setting is an environment variable; `<NAME>_FILE` names a file to read a secret one",
    "from. A service that finds mistakes names all of them in one line of its log and ends with exit code 78: it changes nothing before that.",
    "",
    "## controller",
    "",
    describeConfig(controller),
    "## node-agent",
    "",
    describeConfig(nodeAgent),
    "## local-driver",
    "",
    describeConfig(localDriver).trimEnd(),
    "",
  ].join("\n");
