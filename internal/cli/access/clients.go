package access

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// oauthClient is a client of the authorization server.
type oauthClient cfapi.OAuthClient

func (c *oauthClient) Show(p *term.Printer) {
	rows := [][2]string{{"client", p.Bold(c.ID)}}
	if c.Name != "" {
		rows = append(rows, [2]string{"name", c.Name})
	}
	rows = append(rows, [2]string{"grant types", strings.Join(c.GrantTypes, ", ")},
		[2]string{"scopes", strings.Join(c.Scopes, ", ")},
		[2]string{"authorities", strings.Join(c.Authorities, ", ")})
	if len(c.RedirectURIs) > 0 {
		rows = append(rows, [2]string{"redirect URIs", strings.Join(c.RedirectURIs, ", ")})
	}
	for _, v := range []struct {
		name  string
		value *int
	}{{"access token validity", c.AccessSeconds}, {"refresh token validity", c.RefreshSeconds}} {
		if v.value != nil {
			rows = append(rows, [2]string{v.name, strconv.Itoa(*v.value) + " s"})
		}
	}
	if c.Public {
		rows = append(rows, [2]string{"public", "yes (no secret)"})
	}
	if c.Secret != "" {
		rows = append(rows, [2]string{"secret", p.Bold(c.Secret) + "   (shown only once)"})
	}
	p.Println("")
	p.Pairs(rows...)
}

// clientFlags are the settings of a client.
type clientFlags struct {
	Name        string    `long:"name" value-name:"TEXT" description:"Display name"`
	Authorities *wordList `long:"authorities" value-name:"LIST" description:"Comma-separated authorities: the scopes of the client's own tokens"`
	Scopes      *wordList `long:"scopes" value-name:"LIST" description:"Comma-separated scopes that the client can request for users"`
	GrantTypes  *wordList `long:"grant-types" value-name:"LIST" description:"Comma-separated grant types, such as client_credentials,authorization_code,refresh_token"`
	Redirects   *wordList `long:"redirect-uris" value-name:"LIST" description:"Comma-separated redirect URIs, for authorization_code"`
	AutoApprove *wordList `long:"auto-approve" value-name:"LIST" description:"Comma-separated scopes that users need not approve; true means all"`
	Access      *int      `long:"access-token-validity" value-name:"SECONDS" description:"Lifetime of access tokens"`
	Refresh     *int      `long:"refresh-token-validity" value-name:"SECONDS" description:"Lifetime of refresh tokens"`
}

// wordList is a list of words separated by commas or spaces.
type wordList []string

// UnmarshalFlag splits the value of a flag into words.
func (l *wordList) UnmarshalFlag(text string) error {
	*l = wordList{}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		*l = append(*l, w)
	}
	return nil
}

// body returns the settings that were given, as a request body.
func (f *clientFlags) body() map[string]any {
	body := map[string]any{}
	if f.Name != "" {
		body["name"] = f.Name
	}
	for key, list := range map[string]*wordList{
		"authorities": f.Authorities, "scope": f.Scopes, "authorized_grant_types": f.GrantTypes, "redirect_uri": f.Redirects,
		"autoapprove": f.AutoApprove,
	} {
		if list != nil {
			body[key] = *list
		}
	}
	if f.Access != nil {
		body["access_token_validity"] = *f.Access
	}
	if f.Refresh != nil {
		body["refresh_token_validity"] = *f.Refresh
	}
	return body
}

// secretFlag is the flag for the secret of a client.
type secretFlag struct {
	Secret string `long:"secret" value-name:"SECRET" description:"Secret; visible in the process list (default: prompt for it, or generate one)"`
}

// choose returns the secret and whether it was generated. Without the flag the
// user is prompted in a terminal; an empty answer generates a secret.
func (f *secretFlag) choose(ctx context.Context, s *core.Session, id string) (secret string, generated bool,
	err error) {
	if f.Secret != "" {
		return f.Secret, false, nil
	}
	if !s.Env.InTerminal {
		return rand.Text(), true, nil
	}
	in := bufio.NewReader(s.Env.In)
	what := fmt.Sprintf("Secret of %s (enter to generate one)", id)
	if s.Env.Password == nil {
		secret, err = s.AskOptional(ctx, in, what)
	} else {
		secret, err = s.Secret(ctx, in, what)
	}
	if err == nil && secret == "" {
		return rand.Text(), true, nil
	}
	return secret, false, err
}

// clientsCall calls the authorization server's client endpoints.
func clientsCall(ctx context.Context, s *core.Session, method, path string, body, into any) error {
	_, err := s.API.Do(ctx, client.Call{Method: method, URL: s.Config.Links.UAA + "/oauth/clients" + path, Body: body,
		Into: into})
	if status := client.Status(err); status == http.StatusForbidden || status == http.StatusUnauthorized {
		return &core.Problem{
			What: "Permission denied.", Why: "the login lacks clients.read, clients.write or clients.admin: " + err.Error(),
			Try: fmt.Sprintf("log in with a client that has them: '%s auth CLIENT SECRET --client-credentials'", s.Env.Program),
			Err: err,
		}
	}
	return err
}

// noClient reports that a client does not exist and suggests a similar one.
func noClient(ctx context.Context, s *core.Session, id string, err error) error {
	if client.Status(err) != http.StatusNotFound {
		return err
	}
	p := &core.Problem{What: "Client '" + id + "' not found.", Try: fmt.Sprintf("'%s clients' lists them", s.Env.Program),
		Err: errors.Join(core.ErrNotFound, err)}
	if all, err := listClients(ctx, s); err == nil {
		var ids []string
		for _, c := range all {
			ids = append(ids, c.ID)
		}
		p.Try = core.DidYouMeanOr(p.Try, id, ids)
	}
	return p
}

func listClients(ctx context.Context, s *core.Session) ([]oauthClient, error) {
	var all []oauthClient
	for {
		var page cfapi.SCIMList[oauthClient]
		q := url.Values{"startIndex": {strconv.Itoa(len(all) + 1)}, "count": {"100"}, "sortBy": {"client_id"}}
		if err := clientsCall(ctx, s, http.MethodGet, "?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Resources...)
		if len(page.Resources) == 0 || len(all) >= page.Total {
			slices.SortFunc(all, func(a, b oauthClient) int { return strings.Compare(a.ID, b.ID) })
			return all, nil
		}
	}
}

func showClients(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting clients")
	all, err := listClients(ctx, s)
	if err != nil {
		return nil, err
	}
	return &core.Listing[oauthClient]{
		Key: "clients", Rows: all, Heading: []string{"client", "grant types", "scopes", "authorities"},
		Cells: func(c oauthClient) []string {
			return []string{c.ID, strings.Join(c.GrantTypes, ", "), shortList(c.Scopes), shortList(c.Authorities)}
		},
	}, nil
}

// shortList returns the first words of a list, for tables.
func shortList(words []string) string {
	const most = 3
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most-1], ", "), len(words)-most+1)
}

func showClient(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting client %s", w["CLIENT"])
	var found oauthClient
	if err := clientsCall(ctx, s, http.MethodGet, "/"+url.PathEscape(w["CLIENT"]), nil, &found); err != nil {
		return nil, noClient(ctx, s, w["CLIENT"], err)
	}
	return &found, nil
}

type createClientFlags struct {
	clientFlags
	secretFlag
	Public bool `long:"public" description:"Create a client without a secret, for apps that cannot keep one; needs PKCE"`
}

func createClient(ctx context.Context, s *core.Session, w core.Words, f *createClientFlags) (core.Result, error) {
	if f.Public && f.Secret != "" {
		return nil, core.UsageError("--public cannot be combined with --secret")
	}
	body := f.body()
	body["client_id"] = w["CLIENT"]
	if f.GrantTypes == nil {
		body["authorized_grant_types"] = []string{"client_credentials"}
		if f.Redirects != nil || f.Public {
			body["authorized_grant_types"] = []string{"authorization_code", "refresh_token"}
		}
	}
	var secret string
	var generated bool
	if f.Public {
		body["allowpublic"] = true
	} else {
		var err error
		if secret, generated, err = f.choose(ctx, s, w["CLIENT"]); err != nil {
			return nil, err
		}
		body["client_secret"] = secret
	}
	s.Acting("Creating client %s", w["CLIENT"])
	var created oauthClient
	err := clientsCall(ctx, s, http.MethodPost, "", body, &created)
	if client.Status(err) == http.StatusConflict {
		return nil, &core.Problem{
			What: "Client " + w["CLIENT"] + " already exists.", Why: "it was not changed",
			Try: fmt.Sprintf("'%[1]s update-client %[2]s' changes it, '%[1]s set-client-secret %[2]s' its secret", s.Env.Program,
				w["CLIENT"]), Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	created.Secret = ""
	if generated {
		created.Secret = secret
	}
	s.OK()
	return &created, nil
}

func updateClient(ctx context.Context, s *core.Session, w core.Words, f *clientFlags) (core.Result, error) {
	change := f.body()
	if len(change) == 0 {
		return nil, core.UsageError("nothing to update: pass --authorities, --scopes, --grant-types or another flag")
	}
	s.Acting("Updating client %s", w["CLIENT"])
	// An update replaces the whole client, so unchanged settings are sent too.
	at := "/" + url.PathEscape(w["CLIENT"])
	body := map[string]any{}
	if err := clientsCall(ctx, s, http.MethodGet, at, nil, &body); err != nil {
		return nil, noClient(ctx, s, w["CLIENT"], err)
	}
	delete(body, "lastModified")
	maps.Copy(body, change)
	var updated oauthClient
	if err := clientsCall(ctx, s, http.MethodPut, at, body, &updated); err != nil {
		return nil, err
	}
	s.OK()
	return &updated, nil
}

type setClientSecretFlags struct {
	secretFlag
	Add    bool `long:"add" description:"Keep the old secret valid beside the new one, until --delete-old"`
	Delete bool `long:"delete-old" description:"Delete the older of two secrets"`
}

// secretResult is the result of changing a secret.
type secretResult struct {
	ID     string `json:"client_id"`
	Change string `json:"change"`
	Secret string `json:"client_secret,omitempty"`
}

func (r *secretResult) Show(p *term.Printer) {
	if r.Secret != "" {
		p.Println("")
		p.Pairs([2]string{"client", p.Bold(r.ID)}, [2]string{"secret", p.Bold(r.Secret) + "   (shown only once)"})
	}
}

func setClientSecret(ctx context.Context, s *core.Session, w core.Words, f *setClientSecretFlags) (core.Result, error) {
	if f.Delete && (f.Add || f.Secret != "") {
		return nil, core.UsageError("--delete-old cannot be combined with --add or --secret")
	}
	out := &secretResult{ID: w["CLIENT"], Change: map[bool]string{true: "ADD", false: "UPDATE"}[f.Add]}
	body := map[string]any{"clientId": w["CLIENT"], "changeMode": out.Change}
	if f.Delete {
		out.Change = "DELETE"
		body["changeMode"] = out.Change
		s.Acting("Deleting the old secret of client %s", w["CLIENT"])
	} else {
		secret, generated, err := f.choose(ctx, s, w["CLIENT"])
		if err != nil {
			return nil, err
		}
		body["secret"] = secret
		if generated {
			out.Secret = secret
		}
		s.Acting("Setting the secret of client %s", w["CLIENT"])
	}
	if err := clientsCall(ctx, s, http.MethodPut, "/"+url.PathEscape(w["CLIENT"])+"/secret", body, nil); err != nil {
		return nil, noClient(ctx, s, w["CLIENT"], err)
	}
	s.OK()
	return out, nil
}

func deleteClient(ctx context.Context, s *core.Session, w core.Words, f *core.ForceOnlyFlag) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "Really delete the client "+w["CLIENT"]+"; its tokens stop working"); err != nil {
		return nil, err
	}
	s.Acting("Deleting client %s", w["CLIENT"])
	err := clientsCall(ctx, s, http.MethodDelete, "/"+url.PathEscape(w["CLIENT"]), nil, nil)
	if client.Status(err) == http.StatusNotFound {
		return s.Absent("Client", "client", w["CLIENT"])
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	return &core.Removed{Kind: "client", Name: w["CLIENT"], Gone: true}, nil
}

// clientCommands returns the commands for OAuth clients.
func clientCommands() []*core.Command {
	return core.InGroup(core.GroupClients,
		core.Entry("clients", "", "List OAuth clients", core.NeedsLogin, showClients, ""),
		core.Entry("client", "CLIENT", "Show an OAuth client", core.NeedsLogin, showClient, "my-sender"),
		core.Entry("create-client", "CLIENT [--authorities LIST] [--scopes LIST] [--grant-types LIST]",
			"Create an OAuth client", core.NeedsLogin, createClient,
			"my-sender --authorities notifications.write,critical_notifications.write",
			"my-web --scopes openid,cloud_controller.read --redirect-uris https://app.example.com/callback").
			Explained("Prompts for the secret in a terminal, and generates one when none is given. A generated secret is "+
				"shown once. The default grant type is client_credentials."),
		core.Entry("update-client", "CLIENT [--authorities LIST] [--scopes LIST] [--grant-types LIST]",
			"Update an OAuth client", core.NeedsLogin, updateClient,
			"my-sender --authorities notifications.write").
			Explained("A list replaces the current one; settings without a flag stay unchanged."),
		core.Entry("set-client-secret", "CLIENT [--add | --delete-old]", "Set or rotate the secret of an OAuth client",
			core.NeedsLogin, setClientSecret,
			"my-sender", "my-sender --add", "my-sender --delete-old").
			Explained(
				"To rotate without an outage, add a second secret, configure the client with it, then delete the old one."),
		core.Entry("delete-client", "CLIENT [-f]", "Delete an OAuth client", core.NeedsLogin, deleteClient, "my-sender -f"),
	)
}
