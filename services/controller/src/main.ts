import { startMain } from "@holdfast/shared/start-main";

await startMain("controller", () => import("./serve-main.ts"));
