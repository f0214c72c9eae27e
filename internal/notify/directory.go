package notify

import "context"

// Directory knows who belongs to an audience. Behind it are the platform and
// the authorization server, asked in pages and with one cached token.
//
// Its errors are faults: NotFound with the service's words for a space,
// organization or scope that does not exist, NotAcceptable for a scope that
// every user has, Unavailable when a server does not answer.
type Directory interface {
	// Resolve checks that an audience exists and fills in its names. Users and
	// addresses are not checked.
	Resolve(ctx context.Context, a Audience) (Audience, error)
	// Page returns the members of a resolved audience that follow cursor, about
	// limit of them, and the cursor of the next page, "" after the last one. The
	// same member may come twice. Recipient.Audience is left 0.
	Page(ctx context.Context, a Audience, cursor string, limit int) (members []Recipient, next string, err error)
	// Emails returns the addresses of users; those unknown are missing, those
	// without an address have "".
	Emails(ctx context.Context, userIDs []string) (map[string]string, error)
}
