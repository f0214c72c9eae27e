package main

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"ingot/samples/internal/sample"
)

// The defaults of what is registered and created.
const (
	defaultKind     = "sample-news"
	defaultSource   = "Notification Sender"
	defaultTemplate = "Notification Sender's template"
)

// settings are the addresses of the notification service and the credentials for
// it.
type settings struct {
	notifications, auth string // addresses
	clientID, secret    string
	kind, source        string
}

// configured returns the settings of the bound service, or of the environment if
// none is bound.
func configured(getenv func(string) string) (*settings, error) {
	services, err := sample.Services(getenv("VCAP_SERVICES"))
	if err != nil {
		return nil, err
	}
	read, from := getenv, "the environment"
	for _, s := range services {
		// The marketplace's service has "url"; a user-provided one may have
		// "notifications_url".
		address := s.Credential("notifications_url")
		if address == "" && s.Credential("auth_url") != "" {
			address = s.Credential("url")
		}
		if address != "" {
			read, from = func(name string) string {
				if name == "NOTIFICATIONS_URL" {
					return address
				}
				return s.Credential(strings.ToLower(name))
			}, "the service "+s.Name
			break
		}
	}
	c := &settings{
		notifications: strings.TrimRight(read("NOTIFICATIONS_URL"), "/"), auth: strings.TrimRight(read("AUTH_URL"), "/"),
		clientID: read("CLIENT_ID"), secret: read("CLIENT_SECRET"),
		kind: cmp.Or(getenv("NOTIFICATION_KIND"), defaultKind), source: cmp.Or(getenv("NOTIFICATION_SOURCE"), defaultSource),
	}
	for _, field := range []struct{ name, value string }{
		{"NOTIFICATIONS_URL", c.notifications}, {"AUTH_URL", c.auth}, {"CLIENT_ID", c.clientID}, {"CLIENT_SECRET", c.secret},
	} {
		if field.value == "" {
			return nil,
				fmt.Errorf("notification-sender: %s gives no %s: set NOTIFICATIONS_URL, AUTH_URL, CLIENT_ID and CLIENT_SECRET, "+
					"or bind a service: cf create-service notifications default mail, cf bind-service notification-sender mail",
					from, field.name)
		}
		if !strings.HasSuffix(field.name, "_URL") {
			continue
		}
		if u, err := url.Parse(field.value); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("notification-sender: %s of %s is no address of the form http://HOST:PORT", field.name, from)
		}
	}
	return c, nil
}
