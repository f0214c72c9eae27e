package config

// Config is one context: a server, the login there, and the targeted org and space.
type Config struct {
	API               string `json:"api,omitempty"`
	APIVersion        string `json:"api_version,omitempty"`
	Links             Links  `json:"links,omitzero"`
	SkipSSLValidation bool   `json:"skip_ssl_validation,omitempty"`
	// CA are certificates in PEM form that are trusted in addition to those of the system.
	CA           string `json:"ca,omitempty"`
	AccessToken  string `json:"access_token,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
	// Client is the OAuth client of the login, if it is not cf.
	Client OAuthClient `json:"client,omitzero"`
	Org    Named       `json:"org,omitzero"`
	Space  Named       `json:"space,omitzero"`
	// Local is the data directory of the server on this machine that was targeted
	// automatically. It is empty when the user chose a target.
	Local string `json:"local,omitempty"`
	// LocalPID is the process id of the server that the login belongs to.
	LocalPID int `json:"local_pid,omitempty"`
	// SharedWithCF means that the cf CLI's configuration has a copy of the login. The server
	// replaces refresh tokens when they are used, so a command that does so updates both.
	SharedWithCF bool `json:"shared_with_cf,omitempty"`
	// Notifications is the client that sends notifications.
	Notifications Notifications `json:"notifications,omitzero"`

	store *Store
	name  string
	// named means that the user named the context for this command.
	named bool
	// selects makes it the current context with the next Save.
	selects bool
	// base is what was read, nil for a context that does not exist.
	base fields
	// broken is why a context cannot be used or changed.
	broken error
	cf     cfFile // of the context of the cf CLI
}

// Links are the addresses in the root document of an API.
type Links struct {
	Login         string `json:"login,omitempty"`
	UAA           string `json:"uaa,omitempty"`
	LogCache      string `json:"log_cache,omitempty"`
	Logging       string `json:"logging,omitempty"`
	Routing       string `json:"routing,omitempty"`
	Policies      string `json:"network_policy_v1,omitempty"`
	SSH           string `json:"app_ssh,omitempty"`
	SSHHostKey    string `json:"app_ssh_host_key,omitempty"`
	Notifications string `json:"notifications,omitempty"`
	// Public is the API's address for other machines, if a server on this machine has
	// TLS and the client uses it without.
	Public string `json:"public,omitempty"`
}

// Named is a name and a guid.
type Named struct {
	GUID string `json:"guid,omitempty"`
	Name string `json:"name,omitempty"`
}

// OAuthClient is an OAuth client, with its secret if it has one.
type OAuthClient struct {
	ID     string `json:"id,omitempty"`
	Secret string `json:"secret,omitempty"`
}

// Notifications is the OAuth client that notifications are sent as.
type Notifications struct {
	Client string `json:"client,omitempty"`
	Secret string `json:"secret,omitempty"`
	// API is the API that the client belongs to.
	API string `json:"api,omitempty"`
}

// Name returns the name of the context.
func (c *Config) Name() string { return c.name }

// Named reports whether the user named the context for this command.
func (c *Config) Named() bool { return c.named }

// Exists reports whether the context is in a file.
func (c *Config) Exists() bool { return c.base != nil }

// Err returns why a context cannot be used, such as a configuration of the cf CLI in another format.
func (c *Config) Err() error { return c.broken }

// Select makes it the current context with the next Save.
func (c *Config) Select() { c.selects = true }

// Save writes what changed since the context was read. What another command changed
// meanwhile stays.
func (c *Config) Save() error { return c.store.save(c, func(fields) bool { return true }) }

// SaveLogin saves renewed tokens, unless the login was replaced since it was read.
func (c *Config) SaveLogin(api, refresh string) error {
	return c.store.save(c, func(have fields) bool {
		return have.text("api") == api && have.text("refresh_token") == refresh
	})
}

// Reload reads the context again.
func (c *Config) Reload() (*Config, error) { return c.store.Load(c.name) }

// Forget drops the login and everything that depends on it.
func (c *Config) Forget() {
	c.AccessToken, c.RefreshToken, c.Org, c.Space = "", "", Named{}, Named{}
	c.Client, c.SharedWithCF, c.Notifications = OAuthClient{}, false, Notifications{}
}
