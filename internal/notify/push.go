package notify

import (
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ingot/internal/base/fault"
)

const (
	// MaxPushSubscriptions limits those that a user has of a client; those that were registered least recently give way.
	MaxPushSubscriptions = 20
	// PushSubscriptionBytes is what each counts in Bounds.Sends: its address and keys at most, and the row.
	PushSubscriptionBytes = 4 << 10
	// MaxPushHas limits PushSubscription.Has.
	MaxPushHas = 20

	maxPushEndpoint = 2000 // also of a device's token
	minPushToken    = 4
	maxPushLabel    = 100
	pushAuthBytes   = 16
)

// PushSubscription is a browser that a user has subscribed: where its push service takes messages, and the keys to
// encrypt them with. Or it is a device on which the user has an app: the token that the app got from the service of its
// platform, to which a Provider delivers. Endpoint, keys and token are stored sealed, because who knows them may send
// to the browser or device.
type PushSubscription struct {
	ID string // of client and endpoint, or token: see PushSubscriptionID and PushDeviceID
	Owner
	// Token is that of a device, and TokenOf the service that gave it. A browser has the other fields instead.
	Token, TokenOf string

	Endpoint string
	P256dh   []byte // the browser's public key, an uncompressed point
	Auth     []byte // the secret that it shares
	// Label is shown in lists: "Firefox on the laptop".
	Label            string
	Created, Updated time.Time
	// Has are the latest messages that it accepted while another browser of the user did not, so that they are tried
	// again: it does not get them twice.
	Has []int64
}

// PushSubscriptionID returns the id of an endpoint. It has no user: a browser that another user logs in to is the other
// user's from then on.
func PushSubscriptionID(clientID, endpoint string) string {
	sum := sha256.Sum256([]byte(clientID + "\x00" + endpoint))
	return hex.EncodeToString(sum[:16])
}

// PushDeviceID returns the id of a device. As a browser, it belongs to the user who registered it last.
func PushDeviceID(clientID, service, token string) string {
	return PushSubscriptionID(clientID, service+" "+token) // no endpoint has a space
}

// Device reports whether it is a device and not a browser.
func (s *PushSubscription) Device() bool { return s.Token != "" || s.TokenOf != "" }

// Accepted reports whether it accepted a message already.
func (s *PushSubscription) Accepted(message int64) bool { return slices.Contains(s.Has, message) }

// Service returns the host of the push service, which is all of the endpoint that is shown; of a device TokenOf.
func (s *PushSubscription) Service() string {
	if s.Device() {
		return s.TokenOf
	}
	u, err := url.Parse(s.Endpoint)
	if err != nil {
		return "…"
	}
	return u.Host
}

// Check validates what a browser or an app gave.
func (s *PushSubscription) Check() error {
	problems := s.checkBrowser()
	if s.Device() {
		problems = s.checkDevice()
	}
	if utf8.RuneCountInString(s.Label) > maxPushLabel || !utf8.ValidString(s.Label) ||
		strings.ContainsFunc(s.Label, unicode.IsControl) {
		problems = append(problems, fmt.Sprintf(`"label" must be a line of at most %d characters`, maxPushLabel))
	}
	if why := UserProblem(s.UserID); why != "" {
		problems = append(problems, why)
	}
	return fault.Invalid(problems...)
}

func (s *PushSubscription) checkDevice() (problems []string) {
	if s.Endpoint != "" || len(s.P256dh) > 0 || len(s.Auth) > 0 {
		problems = append(problems, `give either "service" and "token" of a device, or "endpoint" and "keys" of a browser`)
	}
	if !ProviderName().MatchString(s.TokenOf) {
		problems = append(problems, `"service" must be the name of a service: at most 63 of a-z, 0-9, - and _`)
	}
	bad := func(r rune) bool { return r <= ' ' || r > '~' }
	if n := len(s.Token); n < minPushToken || n > maxPushEndpoint || strings.ContainsFunc(s.Token, bad) {
		problems = append(problems, fmt.Sprintf(`"token" must have %d to %d characters of ASCII, without spaces and line breaks`,
			minPushToken, maxPushEndpoint))
	}
	return problems
}

func (s *PushSubscription) checkBrowser() (problems []string) {
	if len(s.Endpoint) > maxPushEndpoint {
		problems = append(problems, fmt.Sprintf(`"endpoint" is %d bytes long, at most %d are allowed`, len(s.Endpoint),
			maxPushEndpoint))
	} else if why := CheckProviderURL(s.Endpoint); why != "" {
		problems = append(problems, `"endpoint" `+why)
	}
	if _, err := ecdh.P256().NewPublicKey(s.P256dh); err != nil {
		problems = append(problems, `"keys.p256dh" must be a public key of the curve P-256 in base64url, as the browser gives it`)
	}
	if len(s.Auth) != pushAuthBytes {
		problems = append(problems, fmt.Sprintf(`"keys.auth" must be %d bytes in base64url, as the browser gives them`,
			pushAuthBytes))
	}
	return problems
}

// DecodePushKey reads a key as browsers write them: base64url, with or without padding. It is nil if it is not valid.
func DecodePushKey(text string) []byte {
	const longest = 200
	if len(text) > longest {
		return nil
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil
	}
	return key
}

// PushSubscriptions holds the browsers and devices of users.
type PushSubscriptions interface {
	// PushSubscriptions returns those of some users of a client, by user, those registered last first.
	PushSubscriptions(ctx context.Context, clientID string, users []string) (map[string][]PushSubscription, error)
	// PushSubscriptionsOf returns those of a user, of all clients.
	PushSubscriptionsOf(ctx context.Context, userID string) ([]PushSubscription, error)
	// AddPushSubscription stores one, or replaces that with its ID: then Created is that of the first time, and Has stays
	// unless it was another user's. It fails if the client has too much stored: see Bounds.
	AddPushSubscription(ctx context.Context, s PushSubscription) error
	// DeletePushSubscription is ErrNotFound if the owner has none with the ID.
	DeletePushSubscription(ctx context.Context, of Owner, id string) error
	// PushAccepted adds a message to Has of some.
	PushAccepted(ctx context.Context, message int64, ids []string) error
}
