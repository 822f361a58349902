// Every page by its name in the address, and how the side bar lists them.
import { overview } from "./overview.js";
import { compare, runs } from "./runs.js";
import { tasks } from "./tasks.js";
import { group, groups } from "./groups.js";
import { episodes } from "./episodes.js";
import { episode } from "./episode.js";
import { tokens } from "./tokens.js";
import { alarms, diagnosis, events, findings, outcomes } from "./record.js";
import { audit } from "./audit.js";
import { config } from "./config.js";
import { metrics } from "./metrics.js";

export const PAGES = { overview, runs, compare, tasks, groups, group, episodes, episode, tokens, alarms, diagnosis, findings, outcomes, config, audit, events, metrics };

/** Pages of one thing, and the list that it stands in. */
export const PARENTS = { episode: "episodes", tokens: "episodes", group: "groups" };

/** [section, [[page, label]…]] */
export const SECTIONS = [
  ["The run", [["overview", "Overview"], ["alarms", "Alarms"], ["diagnosis", "Diagnosis"], ["metrics", "Metrics"]]],
  ["The work", [["tasks", "Tasks"], ["groups", "Groups"], ["episodes", "Episodes"], ["outcomes", "Outcomes"], ["findings", "Findings"]]],
  ["The record", [["config", "Configuration"], ["audit", "Audit"], ["events", "Events"]]],
];
