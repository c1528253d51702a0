Rails.application.routes.draw do
  root "pages#index"
  get "stream", to: "pages#stream"
  post "upload", to: "pages#upload"
  get "log", to: "pages#log"
  get "error", to: "pages#error"
  get "below", to: "pages#below"
  get "chat", to: "pages#chat"
  # Without Sprockets no other part of Rails serves this.
  mount Rack::Files.new(ActionCable::Engine.root.join("app/assets/javascripts").to_s), at: "javascripts"
  resources :posts
end
