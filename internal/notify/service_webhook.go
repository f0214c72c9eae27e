package notify

import (
	"net/url"

	"ingot/internal/base/fault"
)

const maxWebhookURL = 2000

// CheckWebhookURL validates the URL of a webhook. Whether it resolves to a
// private network is checked when it is called.
func CheckWebhookURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxWebhookURL:
		return fault.New(fault.Unprocessable, `"url" is %d bytes long, at most %d are allowed`, len(text), maxWebhookURL)
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return fault.New(fault.Unprocessable, `"url" must begin with https:// or http://`)
	case u.User != nil:
		return fault.New(fault.Unprocessable,
			`"url" must not contain a user name or password: calls are signed with the webhook's secret instead`)
	}
	return nil
}
