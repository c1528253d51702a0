-- Returns the function that the server calls for each request.
local greetings = { "Hello", "Bonjour", "Guten Tag" }

return function(visitor)
  return greetings[#visitor % #greetings + 1] .. ", " .. visitor .. "!"
end
