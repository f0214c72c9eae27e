package notify

import (
	"net/url"

	"ingot/internal/base/fault"
)

const maxWebhookURL = 2000

// CheckWebhookURL says what is wrong with the address of a webhook. Whether it
// leads into a private network is known only when it is called.
func CheckWebhookURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxWebhookURL:
		return fault.New(fault.Unprocessable, `"url" is %d bytes long, at most %d are possible`, len(text), maxWebhookURL)
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return fault.New(fault.Unprocessable, `"url" must be an address that begins with https:// or http://`)
	case u.User != nil:
		return fault.New(fault.Unprocessable, `"url" must not hold a name or password: calls are signed with the webhook's secret instead`)
	}
	return nil
}
