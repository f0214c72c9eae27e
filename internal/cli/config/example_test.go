package config_test

import (
	"fmt"
	"os"

	"ingot/internal/cli/config"
)

// A file that does not exist is an empty configuration.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := config.Path(func(name string) string { return map[string]string{"INGOT_HOME": dir}[name] })
	c, err := config.Load(path)
	if err != nil {
		panic(err)
	}
	c.API = "https://api.example.com"
	if err := c.Save(); err != nil {
		panic(err)
	}
	again, err := config.Load(path)
	fmt.Println(again.API, err)
	// Output: https://api.example.com <nil>
}
