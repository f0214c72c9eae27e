export interface Notification {
  id: string;
  kind_id: string;
  title: string;
  text: string;
  created_at: string;
  read_at: string | null;
  archived_at: string | null;
}

export interface Page {
  notifications: Notification[];
  next: string;
  unread_count: number;
  last_event_id: string;
}

export class InboxError extends Error {
  status: number;
  retryAfter: number;
}

export interface InboxOptions {
  url: string;
  token: () => Promise<string> | string;
  fetch?: typeof fetch;
  firstPause?: number;
  longestPause?: number;
}

export type On = (event: string, data?: {unread_count: number; notification?: Notification}) => void;

export class InboxClient {
  constructor(options: InboxOptions);
  list(query?: {archived?: boolean; unread?: boolean; limit?: number; after?: string}): Promise<Page>;
  unreadCount(): Promise<number>;
  markRead(id: string, read?: boolean): Promise<Notification>;
  archive(id: string, archived?: boolean): Promise<Notification>;
  remove(id: string): Promise<void>;
  markAllRead(): Promise<number>;
  follow(on: On, options?: {signal?: AbortSignal; lastEventId?: string}): Promise<void>;
}

export function links(text: string): {text: string; href?: string}[];
export function parseEvents(text: string): {events: {event: string; id: string; data: string}[]; rest: string};

export interface Browser {
  id: string;
  client_id: string;
  service: string;
  label: string;
  created_at: string;
  updated_at: string;
}

/** Of @ingot/inbox/push. */
export function pushKey(client: InboxClient): Promise<string>;
export function subscribe(client: InboxClient, registration: ServiceWorkerRegistration, options?: {label?: string}): Promise<Browser>;
export function unsubscribe(client: InboxClient, registration: ServiceWorkerRegistration): Promise<boolean>;
export function browsers(client: InboxClient): Promise<Browser[]>;
export function removeBrowser(client: InboxClient, id: string): Promise<void>;

export class IngotInbox extends HTMLElement {
  token: () => Promise<string> | string;
  words: Record<string, unknown>;
}
