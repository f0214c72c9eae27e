package notify

import "context"

// Directory finds the members of audiences. It reads them in pages from the
// platform and the authorization server, with one cached token.
//
// Its errors are faults: NotFound with the service's message for a space,
// organization or scope that does not exist, NotAcceptable for a scope that
// every user has, Unavailable when a server does not respond.
type Directory interface {
	// Resolve checks that an audience exists and fills in its names. Users and
	// addresses are not checked.
	Resolve(ctx context.Context, a Audience) (Audience, error)
	// Page returns about limit members of a resolved audience that follow
	// cursor, and the cursor of the next page, "" after the last one. A member
	// may be returned twice. Recipient.Audience is left 0.
	Page(ctx context.Context, a Audience, cursor string, limit int) (members []Recipient, next string, err error)
	// Emails returns the addresses of users; unknown users are missing, and
	// users without an address have "".
	Emails(ctx context.Context, userIDs []string) (map[string]string, error)
	// Locales returns the languages of users, mostly BCP 47 tags; unknown users
	// are missing, and users without a language have "".
	Locales(ctx context.Context, userIDs []string) (map[string]string, error)
	// Phones returns the phone numbers of users in the form of E.164; unknown
	// users are missing, and users without a usable number have "".
	Phones(ctx context.Context, userIDs []string) (map[string]string, error)
}

// Holder is who had the rights to what is done later: a client, or a user who used the client.
type Holder struct {
	UserID string `json:"user_id,omitempty"`
}

// Rights tells what clients may do now.
type Rights interface {
	// Held returns those of scopes that the client, or the user of it, could have in a token now. A nil holder is not
	// known: it may have been either. NotFound: the client or the user no longer exists. If the authorization server does
	// not tell this service, all scopes are held.
	Held(ctx context.Context, clientID string, by *Holder, scopes []string) ([]string, error)
}
