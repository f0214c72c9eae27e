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
}

// Store stores the data of the authorization server. Every method is one
// transaction (except Purge, which works in batches): when it returns nil, the
// change survives a crash. Methods that take a function call it inside the
// transaction, possibly several times, so it must only change its argument.
// Saving a code, session or refresh token whose user or client does not exist
// returns ErrNotFound; deleting one that does not exist is not an error.
type Store interface {
	// Client returns ErrNotFound when there is none.
	Client(ctx context.Context, id string) (*Client, error)
	Clients(ctx context.Context, q Query) (page []*Client, total int, err error)
	// CreateClient returns ErrConflict when the id is taken.
	CreateClient(ctx context.Context, c *Client) error
	// UpdateClient stores what change made of the client; an error of change
	// is returned and nothing is stored.
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
	// AddMember returns ErrConflict when the member is there already,
	// ErrNotFound when there is no such group.
	AddMember(ctx context.Context, groupID string, m Member) error
	// RemoveMember returns ErrNotFound when it is no member.
	RemoveMember(ctx context.Context, groupID, memberID string) error

	SaveCode(ctx context.Context, c *Code) error
	// TakeCode marks the code as used and returns it as it was before, so
	// that the caller sees whether somebody took it first.
	TakeCode(ctx context.Context, hash string, now time.Time) (*Code, error)

	SaveSession(ctx context.Context, s *Session) error
	Session(ctx context.Context, hash string) (*Session, error)
	DeleteSession(ctx context.Context, hash string) error

	SaveRefresh(ctx context.Context, r *Refresh) error
	Refresh(ctx context.Context, id string) (*Refresh, error)
	// RotateRefresh stores next and marks the refresh token id as rotated at
	// now; it returns the state before. When it was rotated before, or with
	// ErrNotFound when id or its family is gone, nothing is stored.
	RotateRefresh(ctx context.Context, id string, now time.Time, next *Refresh) (*Refresh, error)
	// DeleteFamily removes all refresh tokens of a login.
	DeleteFamily(ctx context.Context, family string) error

	// Revoke withdraws tokens; see Revocation.
	Revoke(ctx context.Context, r Revocation) error
	// Revocations returns those that still matter at now.
	Revocations(ctx context.Context, now time.Time) ([]Revocation, error)

	// Keys returns all signing keys, newest first.
	Keys(ctx context.Context) ([]*Key, error)
	// AddKey stores a key. When onlyIfNone is set and a key exists already
	// nothing happens: several servers may start at once.
	AddKey(ctx context.Context, k *Key, onlyIfNone bool) error
	DeleteKey(ctx context.Context, id string) error

	// Purge removes what expired before now.
	Purge(ctx context.Context, now time.Time) error
}

// Code is a one-time code: of the code flow, or a passcode for `cf login
// --sso`. Only its hash is stored.
type Code struct {
	Hash        string
	Kind        CodeKind
	ClientID    string // empty for passcodes
	UserID      string
	Scopes      []string
	RedirectURI string // as it stood in the request; empty when it did not
	Challenge   string // PKCE, S256
	Nonce       string
	AuthTime    time.Time
	Expires     time.Time
	Used        time.Time // zero until taken
	Family      string    // the login that was made of it
}

// CodeKind says what a code is good for.
type CodeKind string

// The kinds of code.
const (
	CodeAuthorization CodeKind = "authorization"
	CodePasscode      CodeKind = "passcode"
)

// Session is a login in a browser. Only the hash of its cookie is stored.
type Session struct {
	Hash     string
	UserID   string
	AuthTime time.Time
	Expires  time.Time
}

// Refresh is a refresh token. All that descend from one login are a family.
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

// RevocationKind says what a revocation's subject is.
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
