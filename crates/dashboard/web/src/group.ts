// Words about certificates and audit records.

import type { AuditRecord } from "./rows";

const DAY_S = 86_400;

/** Certificates that end within this time are pointed out: hosts that renew do so long before. */
export const SOON_S = 7 * DAY_S;

/** The time until a certificate ends: `in 12 days`, `in 3 h`, `ended`. */
export function endsIn(notAfterS: number, nowS: number): string {
  const left = notAfterS - nowS;
  if (left <= 0) return "ended";
  if (left >= 2 * DAY_S) return `in ${Math.floor(left / DAY_S)} days`;
  return left >= 3600 ? `in ${Math.floor(left / 3600)} h` : `in ${Math.max(1, Math.floor(left / 60))} min`;
}

export const isRefusal = (record: AuditRecord) => /denied|refused|revoked|dropped|torn/.test(record.kind);

/** Such as `request video at (27,92): rule 1, of policy 3; 12 more times`. */
export function detailsOf(record: AuditRecord): string {
  const details = record.details ?? {};
  const text = (key: string) => (details[key] === null || details[key] === undefined ? "" : String(details[key]));
  if (details.left_out) return "too long for this page: see roost audit show";
  if (record.kind !== "action-denied") {
    const pairs = Object.entries(details).filter(([, value]) => value !== null && value !== "");
    return pairs.map(([key, value]) => `${key.replaceAll("_", " ")} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
  }
  const attempt = [text("action"), text("service"), text("area")].filter(Boolean).join(" ");
  const rule = text("rule") && `: ${text("rule")}`;
  const policy = text("policy") && `, of policy ${text("policy")}`;
  const more = text("more") && `; ${text("more")} more times`;
  return `${attempt}${rule}${policy}${more}`.replace(/^; /, "");
}
