package auth

import (
	"context"
	"errors"
	"time"

	"ingot/internal/auth/scim"
)

// Errors of a Store.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("already exists")
)

// Query selects a page of a list.
type Query struct {
	Filter     scim.Expr // nil selects all
	SortBy     string    // attribute name; empty means by creation
	Descending bool
	Start      int // 1-based
	Count      int // 0 asks for the total only
	// Uncounted lets the total be one more than the end of the page when there
	// are more: counting the rest of a long list on each of its pages takes longer
	// than reading it.
	Uncounted bool
	// Contacts selects, of users, the ids and addresses only; their other fields are empty.
	Contacts bool
}

// Store stores the data of the authorization server. Every method is one
// transaction (except Purge, which works in batches): when it returns nil, the
// change survives a crash. Methods that take a function call it inside the
// transaction, possibly several times, so it must only change its argument.
// Saving a code, session or refresh token whose user or client does not exist
// returns ErrNotFound; deleting one that does not exist is not an error.
type Store interface {
	// Client returns ErrNotFound if the client does not exist.
	Client(ctx context.Context, id string) (*Client, error)
	Clients(ctx context.Context, q Query) (page []*Client, total int, err error)
	// CreateClient returns ErrConflict if the id exists.
	CreateClient(ctx context.Context, c *Client) error
	// UpdateClient stores the client as changed by change. If change returns
	// an error, UpdateClient returns it and stores nothing.
	UpdateClient(ctx context.Context, id string, change func(*Client) error) (*Client, error)
	// DeleteClient also removes the client's codes and refresh tokens.
	DeleteClient(ctx context.Context, id string) (*Client, error)

	User(ctx context.Context, id string) (*User, error)
	// UserByName compares the name without regard to case.
	UserByName(ctx context.Context, name, origin string) (*User, error)
	Users(ctx context.Context, q Query) (page []*User, total int, err error)
	CreateUser(ctx context.Context, u *User) error
	UpdateUser(ctx context.Context, id string, change func(*User) error) (*User, error)
	// DeleteUser also removes memberships, codes, sessions and refresh tokens.
	DeleteUser(ctx context.Context, id string) (*User, error)
	// GroupsOf returns the groups that have the member, directly or through
	// other groups, by id and name only.
	GroupsOf(ctx context.Context, memberID string) ([]*Group, error)
	// GroupsOfAll is GroupsOf for many users at once, by direct and indirect
	// membership.
	GroupsOfAll(ctx context.Context, memberIDs []string) (map[string][]*Group, error)

	Group(ctx context.Context, id string) (*Group, error)
	Groups(ctx context.Context, q Query) (page []*Group, total int, err error)
	// CreateGroup compares names without regard to case.
	CreateGroup(ctx context.Context, g *Group) error
	// UpdateGroup replaces the members too.
	UpdateGroup(ctx context.Context, id string, change func(*Group) error) (*Group, error)
	DeleteGroup(ctx context.Context, id string) (*Group, error)
	// AddMember returns ErrConflict if the group has the member already, and
	// ErrNotFound if the group does not exist.
	AddMember(ctx context.Context, groupID string, m Member) error
	// RemoveMember returns ErrNotFound if the group does not have the member.
	RemoveMember(ctx context.Context, groupID, memberID string) error

	SaveCode(ctx context.Context, c *Code) error
	// TakeCode marks the code as used and returns it as it was before, so
	// that the caller sees whether it was used already.
	TakeCode(ctx context.Context, hash string, now time.Time) (*Code, error)

	SaveSession(ctx context.Context, s *Session) error
	Session(ctx context.Context, hash string) (*Session, error)
	DeleteSession(ctx context.Context, hash string) error

	SaveRefresh(ctx context.Context, r *Refresh) error
	Refresh(ctx context.Context, id string) (*Refresh, error)
	// RotateRefresh stores next, marks the refresh token id as rotated at now,
	// and returns the state before. It stores nothing if the token was already
	// rotated, or does not exist (ErrNotFound).
	RotateRefresh(ctx context.Context, id string, now time.Time, next *Refresh) (*Refresh, error)
	// DeleteFamily removes all refresh tokens of a login.
	DeleteFamily(ctx context.Context, family string) error

	// Revoke revokes tokens; see Revocation.
	Revoke(ctx context.Context, r Revocation) error
	// Revocations returns the revocations that have not expired at now.
	Revocations(ctx context.Context, now time.Time) ([]Revocation, error)

	// Failures returns the failed logins of an account that have not expired at now, by
	// address.
	Failures(ctx context.Context, account string, now time.Time) (map[string]Failures, error)
	// AddFailure counts a failed login and returns all in a row. They are forgotten at
	// expires.
	AddFailure(ctx context.Context, account, address string, now, expires time.Time) (Failures, error)
	// ForgetFailures forgets the failures of an account from addresses, or from all if none
	// is given.
	ForgetFailures(ctx context.Context, account string, addresses ...string) error

	// Keys returns all signing keys, newest first.
	Keys(ctx context.Context) ([]*Key, error)
	// AddKey stores a key. If onlyIfNone is set and a key already exists, it
	// does nothing: several servers may start at once.
	AddKey(ctx context.Context, k *Key, onlyIfNone bool) error
	DeleteKey(ctx context.Context, id string) error

	// Purge deletes everything that expired before now.
	Purge(ctx context.Context, now time.Time) error
}

// Code is a one-time code: of the code flow, a passcode for `cf login --sso`, or
// of a login link. Only its hash is stored.
type Code struct {
	Hash        string
	Kind        CodeKind
	ClientID    string // empty for passcodes and login links
	UserID      string
	Scopes      []string
	RedirectURI string // as given in the request, or empty; of a login link, where it leads
	Challenge   string // PKCE, S256
	Nonce       string
	AuthTime    time.Time
	Expires     time.Time
	Used        time.Time // zero until taken
	Family      string    // the login that redeemed it
}

// CodeKind is the purpose of a code.
type CodeKind string

// The kinds of code.
const (
	CodeAuthorization CodeKind = "authorization"
	CodePasscode      CodeKind = "passcode"
	CodeLoginLink     CodeKind = "login_link"
)

// Session is a login in a browser. Only the hash of its cookie is stored.
type Session struct {
	Hash     string
	UserID   string
	AuthTime time.Time
	Expires  time.Time
}

// Refresh is a refresh token. All refresh tokens of one login are a family.
type Refresh struct {
	ID       string
	Family   string
	UserID   string
	ClientID string
	Scopes   []string
	Grant    string // the grant of the login, repeated in access tokens
	AuthTime time.Time
	Issued   time.Time
	Expires  time.Time
	Rotated  time.Time // zero while it is the newest
}

// Revocation revokes tokens: one by its id, or all of a user or client that
// were issued before a time.
type Revocation struct {
	Kind    RevocationKind
	Subject string
	Before  time.Time // for users and clients
	Expires time.Time // when the last token concerned has expired anyway
}

// RevocationKind is the kind of a revocation's subject.
type RevocationKind string

// The kinds of revocation.
const (
	RevokeToken  RevocationKind = "token"
	RevokeUser   RevocationKind = "user"
	RevokeClient RevocationKind = "client"
)

// Key is a signing key. The store encrypts Private.
type Key struct {
	ID      string
	Private []byte // PKCS #8, DER
	Created time.Time
}
