import { startMain } from "@holdfast/shared/start-main";

await startMain("node-agent", () => import("./serve-main.ts"));
