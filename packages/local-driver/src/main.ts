import { startMain } from "@holdfast/shared/start-main";

await startMain("local-driver", () => import("./serve-main.ts"));
