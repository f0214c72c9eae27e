package apps

import (
	"net"
	"net/http"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

// summary is an app in a list of many.
type summary struct {
	GUID      string `json:"guid"`
	Name      string `json:"name"`
	State     string `json:"state"`
	SpaceGUID string `json:"space_guid"`
	Instances struct {
		Desired int `json:"desired"`
		Running int `json:"running"`
		Crashed int `json:"crashed"`
	} `json:"instances"`
}

type route struct {
	cfapi.Route
	Link string `json:"-"`
}

// link returns the address of a route for a browser that reached the console with r; "" for
// routes that browsers cannot open.
func (t route) link(r *http.Request) string {
	if t.Protocol == "tcp" {
		return ""
	}
	scheme, host, path := "http://", t.URL, ""
	if page.Secure(r) {
		scheme = "https://"
	}
	if i := strings.Index(host, "/"); i >= 0 {
		host, path = host[:i], host[i:]
	}
	// Apps listen where the console does.
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		host = net.JoinHostPort(host, port)
	}
	return scheme + host + path
}
