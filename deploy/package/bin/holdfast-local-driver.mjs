#!/usr/bin/env -S node --disable-sigusr1
import { start } from "../lib/start.mjs";

await start("holdfast-local-driver");
