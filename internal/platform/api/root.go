package api

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/version"
	"ingot/internal/base/web"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/api/routes"
)

func (a *API) rootRoutes(g *web.Group) {
	const discovery = "clients read it before they can log in"
	g.Handle(http.MethodGet, "/", web.Public(discovery), a.root)
	g.Handle(http.MethodGet, "/v3", web.Public(discovery), a.v3)
	g.Handle(http.MethodGet, "/v3/info", web.Public(discovery), a.info)
	g.Handle(http.MethodGet, "/v2/info", web.Public(discovery), a.v2Info)
	g.Handle(http.MethodGet, "/instance-identity/ca.pem", web.Public("the certificate of an authority is public"),
		a.identityAuthority)
}

// root lists the URLs of the platform. A link is null for a component that clients
// know and that does not exist here.
func (a *API) root(w http.ResponseWriter, r *http.Request) error {
	if a.o.ConsolePath != "" {
		w.Header().Add("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Redirect(w, r, a.o.ConsolePath, http.StatusFound)
			return nil
		}
	}
	base, auth := rest.BaseURL(r), a.o.AuthURL(r)
	type meta struct {
		Version string `json:"version"`
	}
	var ssh *rest.Link
	if a.o.SSHAddress != "" {
		ssh = &rest.Link{Href: sshHref(a.o.SSHAddress, base),
			Meta: map[string]string{"host_key_fingerprint": a.o.SSHFingerprint, "oauth_client": "ssh-proxy"}}
	}
	links := map[string]*rest.Link{
		"self":                rest.Href(base),
		"cloud_controller_v2": nil,
		"cloud_controller_v3": {Href: base + "/v3", Meta: meta{Version}},
		"network_policy_v0":   nil,
		"network_policy_v1":   rest.Href(base, routes.NetworkPath),
		"login":               rest.Href(auth),
		"uaa":                 rest.Href(auth),
		"credhub":             nil,
		"routing":             rest.Href(base + "/routing"),
		"logging":             rest.Href("ws" + strings.TrimPrefix(base, "http")), // WebSockets for nozzles
		"log_cache":           rest.Href(base),
		"log_stream":          rest.Href(base),
		"app_ssh":             ssh,
	}
	if a.o.ConsolePath != "" {
		links["console"] = rest.Href(base + a.o.ConsolePath) // not in Cloud Foundry
	}
	if a.o.NotificationsURL != "" {
		// Not in Cloud Foundry, where the service is an app.
		links["notifications"] = rest.Href(a.o.NotificationsURL)
	}
	return web.Answer(w, http.StatusOK, map[string]any{"links": links}, nil)
}

// identityAuthority returns the certificate of the authority of instances' certificates.
func (a *API) identityAuthority(w http.ResponseWriter, _ *http.Request) error {
	if len(a.o.IdentityAuthority) == 0 {
		return fault.New(fault.NotFound, "Instances have no certificates here")
	}
	w.Header().Set("Content-Type", "application/x-pem-file")
	_, err := w.Write(a.o.IdentityAuthority)
	return err
}

// sshHref returns the address of the ssh gateway for a client of base.
func sshHref(address, base string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" {
		return address
	}
	u, err := url.Parse(base)
	if err != nil {
		return address
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// v3 lists the resources.
func (a *API) v3(w http.ResponseWriter, r *http.Request) error {
	v3 := rest.BaseURL(r) + "/v3"
	links := map[string]*rest.Link{"self": rest.Href(v3)}
	for _, resource := range []string{
		"app_usage_events", "apps", "audit_events", "buildpacks", "builds", "deployments", "domains", "droplets",
		"environment_variable_groups", "feature_flags",
		"info", "isolation_segments", "jobs", "organization_quotas", "organizations", "packages", "processes",
		"resource_matches", "roles", "routes",
		"security_groups", "service_brokers", "service_credential_bindings", "service_instances", "service_offerings",
		"service_plans", "service_route_bindings", "service_usage_events", "space_quotas", "spaces", "stacks",
		"tasks", "users",
	} {
		links[resource] = rest.Href(v3, "/", resource)
	}
	return web.Answer(w, http.StatusOK, map[string]any{"links": links}, nil)
}

// v2Info is the only endpoint of the v2 API. Service brokers get its URL and find the
// authorization server with it.
func (a *API) v2Info(w http.ResponseWriter, r *http.Request) error {
	auth := a.o.AuthURL(r)
	body := map[string]any{
		"name": "Ingot", "build": version.Version, "version": 0, "support": "",
		"description":            "A Cloud Foundry compatible application platform",
		"authorization_endpoint": auth, "token_endpoint": auth, "min_cli_version": nil, "min_recommended_cli_version": nil,
		"osbapi_version": "2.17",
	}
	if a.o.SSHAddress != "" {
		body["app_ssh_endpoint"], body["app_ssh_host_key_fingerprint"], body["app_ssh_oauth_client"] = sshHref(a.o.SSHAddress,
			rest.BaseURL(r)), a.o.SSHFingerprint, "ssh-proxy"
	}
	return web.Answer(w, http.StatusOK, body, nil)
}

// info describes the platform.
func (a *API) info(w http.ResponseWriter, r *http.Request) error {
	web.WriteJSON(w, http.StatusOK, map[string]any{
		"name":           "Ingot",
		"build":          version.Version,
		"version":        0,
		"description":    "A Cloud Foundry compatible application platform",
		"osbapi_version": "2.17",
		"cli_version":    map[string]string{"minimum": "", "recommended": ""},
		"custom":         map[string]any{},
		"rate_limits":    map[string]any{"enabled": false, "general_limit": 0, "reset_interval_in_minutes": 0},
		"links": map[string]*rest.Link{
			"self":    rest.Href(rest.BaseURL(r), "/v3/info"),
			"support": rest.Href(""),
		},
	})
	return nil
}
