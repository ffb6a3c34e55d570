// SPDX-License-Identifier: Apache-2.0

// Command program imports what execd's runner for Go does, so that the image has it built.
package main

import (
	_ "bufio"
	_ "context"
	_ "encoding/json"
	_ "fmt"
	_ "go/ast"
	_ "go/parser"
	_ "go/scanner"
	_ "go/token"
	_ "maps"
	_ "os"
	_ "os/exec"
	_ "path"
	_ "path/filepath"
	_ "plugin"
	_ "reflect"
	_ "regexp"
	_ "runtime"
	_ "runtime/debug"
	_ "slices"
	_ "sort"
	_ "strconv"
	_ "strings"
	_ "sync"
	_ "sync/atomic"
	_ "time"
)

func main() {}
