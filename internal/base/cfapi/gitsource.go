package cfapi

// GitSource is the git repository that an app is deployed from.
type GitSource struct {
	URL         string  `json:"url"`
	Branch      *string `json:"branch"`
	Folder      *string `json:"folder"`
	Username    *string `json:"username"`
	HasPassword bool    `json:"has_password"`
	Owner       string  `json:"owner"`
	Commit      *string `json:"commit"`
	Subject     *string `json:"subject"`
	DeployedAt  *string `json:"deployed_at"`
	Error       *string `json:"error"`
	Webhook     struct {
		URL     string `json:"url"`
		Enabled bool   `json:"enabled"`
		Secret  string `json:"secret,omitempty"`
	} `json:"webhook"`
}
